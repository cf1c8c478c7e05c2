"""Adds lines to a parallel text from which a model learns to copy.

In most corpora nearly every word is translated, so a model never learns that a
link, a product code or an unknown name stays as it is. Variants of lines teach
it: a word that is the same on both sides gives its place to such a thing, on
both sides. Many of these things are made of words that a model would otherwise
translate. Other variants are lines as people type them: in lowercase, without
the final mark, in quotation marks.

    Tom lives in Boston.       Tom wohnt in Boston.
    Vasnikov lives in Boston.  Vasnikov wohnt in Boston.
    Tom lives in b4x@mail.net. Tom wohnt in b4x@mail.net.
    tom lives in boston.       Tom wohnt in Boston.

Nothing here depends on a language, but for the words of `_NUMBERS` and their
neighbors, which are English, German and French.
"""

import collections
import dataclasses
import itertools
import math
import pathlib
import random
import re
import unicodedata
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

from relative_attention.argument_checks import checked_number
from relative_attention.data.lines import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory

# The share of variants in which a thing takes a place, if lines have places.
_COPY_SHARE = 0.6
# A line has no more variants on average, even if few lines have places.
MOST_VARIANTS = 4
# Lines with these places are rare, and so get more of the variants.
_WEIGHTS = {"word": 1, "number": 1, "amount": 20, "time": 4, "date": 2}
# A word is the same in two languages, a name for example, if in most lines that
# have it both sides do. German "Gift" and English "gift" are no such word.
_LEAST_AGREEMENT = 0.7
_LEAST_COUNT = 3

_WORD = re.compile(r"\w+(?:[.:,]\d+)*")
_FINAL_MARK = re.compile(r"\s*[.!?。！？]+$")
# A keyboard has the first, so it is there twice.
_QUOTES = (
    *[('"', '"')] * 2,
    ("“", "”"),
    ("„", "“"),
    ("« ", " »"),
    ("'", "'"),
)


def variants_of(
    corpus: ParallelCorpus, directory: pathlib.Path | str
) -> ParallelCorpus:
    """Returns the corpus that `write_variants` writes into a folder.

    Raises:
        InputError: if source and target have the same file name.
    """
    names = [
        pathlib.Path(path).name.removesuffix(".gz")
        for path in (corpus.source, corpus.target)
    ]
    if names[0] == names[1]:
        raise InputError(
            "The source and the target must have different file names, as both "
            f"are written into one folder. Received: {corpus.source} and "
            f"{corpus.target}."
        )
    return ParallelCorpus(*(str(pathlib.Path(directory, n)) for n in names))


def write_variants(
    corpus: ParallelCorpus,
    directory: pathlib.Path | str,
    share: float = 0.3,
    seed: int = 1,
) -> dict[str, int]:
    """Writes a parallel text with each line followed by its variants.

    The same text, share and seed give the same variants.

    Args:
        corpus: `ParallelCorpus`. The text.
        directory: path of a new folder. The two files in it have the names of
            the corpus' files, without `.gz`.
        share: float. Number of variants, as a share of the lines. There are
            fewer if few lines have a place for a thing to copy. Defaults to
            `0.3`.
        seed: int. Seed of the variants. Defaults to `1`.

    Returns:
        Dict of the number of variants of each kind.

    Raises:
        InputError: if the folder exists, the files have the same name, or the
            corpus is unusable, see `ParallelCorpus.check`.
    """
    written = variants_of(corpus, directory)
    directory = pathlib.Path(directory)
    if directory.exists():
        raise InputError(f"{directory} exists. Name a new folder.")
    share = checked_number(
        "share", share, lambda n: 0 < n <= MOST_VARIANTS, "a number in (0, 4]"
    )
    corpus.check()
    writer = _Writer(corpus, share, seed)
    with atomic_directory(directory) as folder:
        paths = [pathlib.Path(p).name for p in (written.source, written.target)]
        with (
            open(folder / paths[0], "w", encoding="utf-8") as source,
            open(folder / paths[1], "w", encoding="utf-8") as target,
        ):
            for pair in writer:
                source.write(f"{pair[0]}\n")
                target.write(f"{pair[1]}\n")
    return dict(writer.counts)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Returns how many variants of which kind there are, as a line."""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
    return f"{sum(counts.values()):,}" + (f" ({shown})" if kinds else "")


# === Places of things ===

_NUMBER_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen "
    "fifteen twenty thirty forty fifty sixty",
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn "
    "fünfzehn zwanzig dreißig vierzig fünfzig sechzig",
    "deux trois quatre cinq six sept huit neuf dix onze douze treize "
    "quinze vingt trente quarante cinquante soixante",
)
# A word to the place of its number in the lists: "drei" to 1.
_NUMBERS = {
    word: value
    for words in _NUMBER_WORDS
    for value, word in enumerate(words.split())
}
_WEEKDAYS = {
    word: day
    for words in (
        "monday tuesday wednesday thursday friday saturday sunday",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
    )
    for day, word in enumerate(words.split())
}
# What follows a number in an amount, and is around it in a time of day.
_CURRENCY = re.compile(r" (?:dollars?|euros?|yens?)\b", re.IGNORECASE)
_BEFORE_TIME = re.compile(r"\b(?:at|um|à) $")
_CLOCK = re.compile(r" (?:o'clock|Uhr|heures?)\b")


@dataclasses.dataclass(frozen=True)
class _Place:
    """A part of both lines that a thing can replace.

    Attributes:
        kind: "word", "number", "amount", "time" or "date".
        spans: the start and end of the part in the source and the target.
    """

    kind: str
    spans: tuple[tuple[int, int], tuple[int, int]]


def _single_words(line: str) -> dict[str, re.Match[str]]:
    """Returns the words that a line has once."""
    words = collections.defaultdict(list)
    for match in _WORD.finditer(line):
        words[match[0]].append(match)
    return {word: found[0] for word, found in words.items() if len(found) == 1}


class _SharedWords:
    """The words that stay the same in translation, found by counting lines."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        either: collections.Counter[str] = collections.Counter()
        both: collections.Counter[str] = collections.Counter()
        for pair in pairs:
            source, target = (set(_WORD.findall(line)) for line in pair)
            either.update(source | target)
            both.update(source & target)
        # By their counts, without capitals.
        self.known_words: collections.Counter[str] = collections.Counter()
        for word, count in sorted(either.items()):
            if count >= _LEAST_COUNT and word.isalpha():
                self.known_words[word.lower()] += count
        self._words = {
            word
            for word, count in both.items()
            if count >= _LEAST_COUNT
            and count >= _LEAST_AGREEMENT * either[word]
            and word[0].isupper()
            and len(word) > 1
        }

    def places(self, source: str, target: str) -> list[_Place]:
        """Returns the places of a pair of lines."""
        lines = source, target
        words = [_single_words(line) for line in lines]
        places = []
        for word in words[0].keys() & words[1].keys():
            pair = [side[word] for side in words]
            if word[0].isdigit():
                places.append(_number_place(lines, pair))
            elif word in self._words:
                places.append(_Place("word", _spans(pair)))
        for kind, table in (("number", _NUMBERS), ("date", _WEEKDAYS)):
            by_value: list[dict[int, list[re.Match[str]]]] = []
            for side in words:
                by_value.append(collections.defaultdict(list))
                for word, match in side.items():
                    if (value := table.get(word.lower())) is not None:
                        by_value[-1][value].append(match)
            for value in by_value[0].keys() & by_value[1].keys():
                pair = [side[value][0] for side in by_value]
                if any(len(side[value]) > 1 for side in by_value):
                    continue
                if kind == "date":
                    places.append(_Place("date", _spans(pair)))
                else:
                    places.append(_number_place(lines, pair))
        # Sets have no order of their own; a seed must give the same text.
        return sorted(places, key=lambda place: place.spans)


def _spans(
    pair: list[re.Match[str]],
) -> tuple[tuple[int, int], tuple[int, int]]:
    return pair[0].span(), pair[1].span()


def _number_place(lines: tuple[str, str], pair: list[re.Match[str]]) -> _Place:
    """Returns the place of a number, with what makes it an amount or a time."""
    units = [_CURRENCY.match(line, m.end()) for line, m in zip(lines, pair)]
    if units[0] and units[1]:
        ends = [unit.end() for unit in units if unit]
        kind = "amount"
    elif all(
        _BEFORE_TIME.search(line, 0, m.start()) for line, m in zip(lines, pair)
    ):
        clocks = [_CLOCK.match(line, m.end()) for line, m in zip(lines, pair)]
        ends = [
            clock.end() if clock else match.end()
            for clock, match in zip(clocks, pair)
        ]
        kind = "time"
    else:
        return _Place("number", _spans(pair))
    return _Place(
        kind, ((pair[0].start(), ends[0]), (pair[1].start(), ends[1]))
    )


def _weight(places: list[_Place]) -> int:
    return sum(_WEIGHTS[place.kind] for place in places)


# === Things to copy ===

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_CODE_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
# The parts of a syllable; half of them are simple.
_SIMPLE = ([*"bcdfghjklmnprstvwz"], [*"aeiou"], ["", "", "n", "r", "s", "l"])
_ALL = (
    "bl br ch cl cz dr fl fr gh gl gr h j kh kl kn kr kw ll mc ng nj ph pr q "
    "qu rh s sch sh sk sl sm sp st str sz t th tr ts tz v vl w wr x y z zh č š "
    "ž ł ñ ç".split()
    + [""],
    "a e i o u y aa ae ai au ay ea ee ei eu ie io oa oe oo ou ow ue ui ä ö ü é "
    "è á í ó ø å ã ê".split(),
    "ck d ff g k ll m n nd ng nn nt p r rd rk rn rt s sky ss st t th tt v wicz "
    "x z".split()
    + [""],
)
_TAGS = "a b br code div em h1 h2 i li p script span strong td u".split()
_TOP_LEVELS = "com org net de fr eu info io co.uk gov edu at ch ca jp".split()
_CURRENCIES = ("${}", "€{}", "£{}", "¥{}", "{} €", "{} $", "{} EUR", "{} CHF")
# First and last character of the letters of scripts, the most letters of a
# word, and how often each is drawn.
_SCRIPTS = (
    ("\u0400", "\u045f", 9, 4),  # Cyrillic
    ("\u0386", "\u03ce", 9, 3),  # Greek
    ("\u4e00", "\u9fff", 4, 5),  # Chinese
    ("\u3041", "\u30fa", 6, 2),  # Japanese
    ("\uac00", "\ud7a3", 4, 2),  # Korean
    ("\u05d0", "\u05ea", 7, 1),  # Hebrew
    ("\u0621", "\u064a", 7, 1),  # Arabic
    ("\u0905", "\u0939", 6, 1),  # Devanagari
    ("\u0e01", "\u0e2e", 6, 1),  # Thai
    ("\u10d0", "\u10f0", 7, 1),  # Georgian
)
# First and last character of pictures. With the selector, those of the first
# range are drawn in color; people can have a color of skin.
_PICTURES = (
    ("\u2600", "\u27bf"),
    ("\U0001f300", "\U0001f64f"),
    ("\U0001f680", "\U0001f6ff"),
    ("\U0001f900", "\U0001faff"),
)
_COLOR_SELECTOR = "\ufe0f"
_SKINS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def _characters(first: str, last: str) -> list[str]:
    return [chr(number) for number in range(ord(first), ord(last) + 1)]


# What draws a thing, and how often it is chosen.
_Kinds: TypeAlias = tuple[tuple[Callable[[], str], int], ...]


class _Things:
    """Draws things that stay the same in every language."""

    def __init__(
        self, draws: random.Random, known_words: Mapping[str, int]
    ) -> None:
        self._draws = draws
        # Addresses are often made of known words, and names begin like them. A
        # model must learn not to translate these: the more often it has seen a
        # word, the harder that is. The root leaves some for rare ones.
        # Neither is made of words in another script.
        self._known_words = [
            word
            for word in known_words
            if unicodedata.normalize("NFD", word)[0] in _LATIN
        ]
        self._known_weights = list(
            itertools.accumulate(
                math.sqrt(known_words[word]) for word in self._known_words
            )
        )
        self._pictures = [
            char
            for ends in _PICTURES
            for char in _characters(*ends)
            if unicodedata.category(char) == "So"
        ]
        self._letters = [
            [c for c in _characters(first, last) if c.isalpha() and c.islower()]
            or [c for c in _characters(first, last) if c.isalpha()]
            for first, last, *_ in _SCRIPTS
        ]

        numbers: _Kinds = ((self._integer, 6), (self._decimal, 4))
        words: _Kinds = (
            (self._name, 12),
            (self._full_name, 9),
            (self._code, 5),
            (self._email, 12),
            (self._link, 7),
            (self._markup, 4),
            (self._emoji, 2),
            (self._foreign, 8),
            (self._noise, 1),
            (self._integer, 2),
            (self._decimal, 1),
        )
        self._kinds: dict[str, _Kinds] = {
            "word": words,
            "number": numbers,
            "amount": ((self._amount, 1),),
            "time": ((self._time, 1),),
            "date": ((self._date, 1),),
            "emoji": ((self._emoji, 1),),
            "alone": (
                *words,
                *numbers,
                (self._amount, 4),
                (self._time, 1),
                (self._date, 2),
                (self._marks, 3),
            ),
        }

    def draw(self, kind: str) -> str:
        """Returns a thing for a place of some kind, or to stand alone."""
        choices, weights = zip(*self._kinds[kind])
        chosen: Callable[[], str] = self._draws.choices(choices, weights)[0]
        return chosen()

    def _some(self, characters: Sequence[str], least: int, most: int) -> str:
        count = self._draws.randint(least, most)
        return "".join(self._draws.choices(characters, k=count))

    def _word(self) -> str:
        """Returns a word that nobody has heard, of one to four syllables."""
        count = self._draws.choices((1, 2, 3, 4), (2, 6, 3, 1))[0]
        return "".join(
            self._draws.choice(
                (_SIMPLE if self._draws.random() < 0.6 else _ALL)[part]
            )
            for _ in range(count)
            for part in range(3)
        )

    def _plain_word(self) -> str:
        """Returns a word as hosts have it, in ASCII."""
        word = self._known_word() if self._draws.random() < 0.6 else ""
        plain = unicodedata.normalize("NFD", word or self._word())
        return "".join(filter(_LATIN.__contains__, plain))

    def _known_word(self) -> str:
        """Returns a word of the text, or nothing where it has none."""
        if not self._known_words:
            return ""
        return self._draws.choices(
            self._known_words, cum_weights=self._known_weights
        )[0]

    def _name_part(self) -> str:
        """Returns a name; many begin like a known word, as "Shevchenko"."""
        start = ""
        if self._draws.random() < 0.4:
            start = self._known_word()[: self._draws.randint(2, 5)]
        return f"{start}{self._word()}".capitalize()

    def _name(self) -> str:
        name = self._name_part()
        kind = self._draws.random()
        if kind < 0.06:
            return f"{name}-{self._name_part()}"
        if kind < 0.1:
            prefixes = ("O'", "Mc", "D'", "van ", "de ", "al-", "Mac", "von ")
            return self._draws.choice(prefixes) + name
        return name

    def _full_name(self) -> str:
        middle = ""
        if self._draws.random() < 0.1:
            middle = self._draws.choice(_LATIN).upper() + ". "
        return f"{self._name_part()} {middle}{self._name()}"

    def _integer(self) -> str:
        digits = self._draws.choices((1, 2, 3, 4, 5, 6), (1, 4, 4, 6, 2, 2))[0]
        value = self._draws.randrange(10 ** (digits - 1), 10**digits)
        if digits > 3 and self._draws.random() < 0.3:
            return f"{value:,}".replace(",", self._draws.choice(",. "))
        return str(value)

    def _decimal(self) -> str:
        digits = self._draws.randint(1, 4)
        whole = self._draws.randrange(10**digits)
        mark = self._draws.choice("..,")
        return f"{whole}{mark}{self._some('0123456789', 1, 3)}"

    def _amount(self) -> str:
        number = self._draws.choice((self._integer, self._decimal))()
        return self._draws.choice(_CURRENCIES).format(number)

    def _time(self) -> str:
        minutes = self._draws.randrange(24 * 60)
        mark = self._draws.choice("::::.h")
        return f"{minutes // 60}{mark}{minutes % 60:02}"

    def _date(self) -> str:
        day, month = self._draws.randint(1, 31), self._draws.randint(1, 12)
        year = self._draws.randint(1900, 2060)
        return self._draws.choice(
            (
                f"{year}-{month:02}-{day:02}",
                f"{day}.{month}.{year}",
                f"{day:02}/{month:02}/{year}",
                f"{month}/{day}/{year % 100:02}",
            )
        )

    def _code(self) -> str:
        parts = self._draws.choices((1, 2, 3), (5, 4, 1))[0]
        mark = self._draws.choice("---/._")
        code = mark.join(
            self._some(_CODE_CHARACTERS, 1, 6) for _ in range(parts)
        )
        return code.lower() if self._draws.random() < 0.1 else code

    def _host(self) -> str:
        words = [
            self._plain_word()
            for _ in range(self._draws.choices((1, 2), (3, 1))[0])
        ]
        mark = self._draws.choice("..-")
        return f"{mark.join(words)}.{self._draws.choice(_TOP_LEVELS)}"

    def _email(self) -> str:
        user = self._plain_word()
        kind = self._draws.random()
        if kind < 0.4:
            user += self._draws.choice("._-") + self._plain_word()
        elif kind < 0.6:
            user += self._draws.choice(("", "_", "-"))
            user += self._some("0123456789", 1, 4)
        return f"{user}@{self._host()}"

    def _link(self) -> str:
        start = self._draws.choice(
            ("https://", "https://www.", "http://", "http://www.", "www.", "")
        )
        path = ""
        for _ in range(self._draws.choices((0, 1, 2, 3), (3, 4, 3, 1))[0]):
            part = self._draws.choice(
                (self._plain_word, self._plain_word, self._integer, self._code)
            )()
            path += f"/{part}".replace(" ", "")
        kind = self._draws.random()
        if path and kind < 0.2:
            path += self._draws.choice((".html", ".php", ".pdf", "/"))
        elif path and kind < 0.35:
            path += f"?{self._plain_word()}={self._some(_LATIN, 1, 6)}"
        elif path and kind < 0.45:
            path += f"#{self._plain_word()}"
        return f"{start}{self._host()}{path}"

    def _markup(self) -> str:
        tag = self._draws.choice(_TAGS)
        if self._draws.random() < 0.2:
            tag = self._plain_word()
        kind = self._draws.random()
        if kind < 0.15:
            return self._draws.choice((f"<{tag}>", f"</{tag}>", f"<{tag}/>"))
        inside = self._name()
        if tag == "a":
            return f'<a href="{self._link()}">{inside}</a>'
        if kind < 0.3:
            return f'<{tag} class="{self._plain_word()}">{inside}</{tag}>'
        return f"<{tag}>{inside}</{tag}>"

    def _emoji(self) -> str:
        count = self._draws.choices((1, 2, 3), (8, 2, 1))[0]
        pictures = self._draws.choices(self._pictures, k=count)
        kind = self._draws.random()
        if kind < 0.5 and pictures[-1] <= _PICTURES[0][1]:
            pictures.append(_COLOR_SELECTOR)
        elif kind < 0.05:
            pictures.append(self._draws.choice(_SKINS))
        return "".join(pictures)

    def _foreign(self) -> str:
        """Returns letters of another script, as long as words are there."""
        weights = [weight for *_, weight in _SCRIPTS]
        letters, (_, _, most, _) = self._draws.choices(
            list(zip(self._letters, _SCRIPTS)), weights
        )[0]
        word = self._some(letters, 1, most)
        return word.capitalize() if self._draws.random() < 0.4 else word

    def _noise(self) -> str:
        return self._some(_LATIN, 3, 16)

    def _marks(self) -> str:
        mark = self._draws.choice("?!.…-–*#=_+/&%§~^|<>@:;,()[]{}•→©°")
        return mark * self._draws.choices((1, 2, 3, 5), (4, 1, 2, 1))[0]


# === Variants ===


class _Writer:
    """Makes the variants of a corpus, line by line."""

    def __init__(self, corpus: ParallelCorpus, share: float, seed: int) -> None:
        self._corpus = corpus
        self._draws = random.Random(seed)
        self._shared = _SharedWords(corpus)
        self._things = _Things(self._draws, self._shared.known_words)
        num_lines = num_with_places = weight = 0
        for pair in corpus:
            num_lines += 1
            if places := self._shared.places(*pair):
                num_with_places += 1
                weight += _weight(places)
        wanted = share * num_lines
        copies = min(_COPY_SHARE * wanted, MOST_VARIANTS * num_with_places)
        # How many variants of each sort a line of weight 1 has on average.
        self._copies = copies / weight if weight else 0.0
        self._forms = (1 - _COPY_SHARE) * share
        self.counts: collections.Counter[str] = collections.Counter()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields each pair of lines and its variants."""
        for pair in self._corpus:
            yield pair
            if places := self._shared.places(*pair):
                average = self._copies * _weight(places)
                for _ in range(self._drawn(average)):
                    kind, variant = self._copy(pair, places)
                    self.counts[kind] += 1
                    yield variant
            for _ in range(self._drawn(self._forms)):
                kind, variant = self._form(pair)
                if variant != pair:
                    self.counts[kind] += 1
                    yield variant

    def _drawn(self, average: float) -> int:
        whole = int(average)
        return whole + (self._draws.random() < average - whole)

    def _copy(
        self, pair: tuple[str, str], places: list[_Place]
    ) -> tuple[str, tuple[str, str]]:
        """Returns a pair with a thing in one place or, at times, in all."""
        weights = [_WEIGHTS[place.kind] for place in places]
        chosen = self._draws.choices(places, weights)
        if self._draws.random() < 0.4:
            chosen = places
        lines = list(pair)
        things = [self._things.draw(place.kind) for place in chosen]
        for side in (0, 1):
            # From the end, so that the spans before it stay where they are.
            for place, thing in sorted(
                zip(chosen, things), key=lambda item: item[0].spans[side]
            )[::-1]:
                start, end = place.spans[side]
                line = lines[side]
                lines[side] = f"{line[:start]}{thing}{line[end:]}"
        return chosen[0].kind, (lines[0], lines[1])

    def _form(self, pair: tuple[str, str]) -> tuple[str, tuple[str, str]]:
        """Returns a pair in another form, or a thing alone."""
        source, target = pair
        kind = self._draws.choices(
            ("lowercase", "unmarked", "quoted", "alone", "emoji"),
            (8, 2, 9, 4, 1),
        )[0]
        if kind == "lowercase":
            source = source.lower()
        elif kind == "unmarked":
            source, target = (_FINAL_MARK.sub("", line) for line in pair)
            if self._draws.random() < 0.5:
                source = source.lower()
        elif kind == "quoted":
            first, last = self._draws.choice(_QUOTES)
            source, target = (f"{first}{line}{last}" for line in pair)
        elif kind == "emoji":
            thing = self._things.draw("emoji")
            source, target = (f"{line} {thing}" for line in pair)
        else:
            source = target = self._things.draw("alone")
        return kind, (source, target)
