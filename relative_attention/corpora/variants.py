"""Adds lines to a parallel text from which a model learns what stays the same.

In most corpora nearly every word is translated, so a model never learns that
something stays as it is. Variants of lines teach it. A sign (see
`text.placeholders`) stands in the place of two words that translate each other,
or around them. A name or a number that is the same on both sides (or Tom and
トム) gives its place to another one, and one is put at the end of a line.
Other variants are sentences of a line and words that translate each other,
alone, short lines once more, and lines as people type them.

    Tom lives in Boston.       Tom wohnt in Boston.
    Tom lives in ␁.            Tom wohnt in ␁.
    Tom ␁ lives ␂ in Boston.   Tom ␁ wohnt ␂ in Boston.
    Vasnikov lives in Boston.  Vasnikov wohnt in Boston.
    Tom lives in Boston, Meck. Tom wohnt in Boston, Meck.
    Lives!                     Wohnt!
    tom lives in boston.       Tom wohnt in Boston.

Nothing here depends on a language: words that translate each other are found by
counting lines. Where a language has no blanks, parts of words are counted.
"""

import collections
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
from typing import NamedTuple

from relative_attention.argument_checks import checked_number
from relative_attention.data.lines import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.text.form import SIGNS
from relative_attention.text.form import UNSPACED
from relative_attention.text.form import UNSPACED_LETTERS
from relative_attention.text.form import clean_text
from relative_attention.text.form import is_of_spaced_word
from relative_attention.text.signs import without_signs

# A line has no more variants on average.
MOST_VARIANTS = 4
# Two words translate each other if their Dice coefficient is at least this:
# twice the lines with both words, over the sum of the lines with each. Equal
# words, such as "Tom", need a higher one: German "Gift" is not English "gift".
_LEAST_DICE = 0.45
_LEAST_DICE_OF_SAME = 0.7
_LEAST_COUNT = 5
# Bounds of memory and time: the lines that are counted; the lines of a word in
# which words of the other side are counted; the characters of a part of a word,
# in scripts without blanks, unless all are katakana; the words of a line, which
# is skipped if longer.
_MOST_LINES = 200_000
_MOST_LINES_OF_WORD = 64
_LONGEST_PART = 6
_MOST_WORDS = 400
# A word in a larger share of the lines counts as a word of grammar. A sign
# replaces such a word only if it is the same on both sides.
_MOST_OFTEN = 0.01

# With "'t" or "'s".
_WORD = re.compile(r"\w+(?:['’]\w{1,2}\b)?")
# What has blanks around it and what has none, as in "３時". Katakana, which
# write names and loanwords, are not cut.
_STRETCH = re.compile(f"[{UNSPACED_LETTERS}]+|[^{UNSPACED_LETTERS}]+")
_KATAKANA = re.compile("[\u30a1-\u30ff]+")
_UNIT = re.compile(f"{_KATAKANA.pattern}|.")
_EAST_ASIAN = re.compile("[\u3005-\u9fff]")
_MARK = re.compile(r"(?<=\w)[,:;–—-](?=\s)")
# Of a Spanish line whose final mark was cut off.
_OPENING_MARK = re.compile(r"^[¡¿](?=[^!?]*$)")
_FINAL_MARK = re.compile(r"\s*[.!?。！？]+$")
_WIDE_MARKS = "。！？"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])(?=\w)")
# With a full stop or an exclamation mark.
_STATEMENT = re.compile(r"¡?([^¡]*\w) ?[.。!！]")
_WIDE = str.maketrans("!.", "！。")
# A keyboard has the first, so it is there twice.
_QUOTES = (
    *[('"', '"')] * 2,
    ("“", "”"),
    ("„", "“"),
    ("« ", " »"),
    ("'", "'"),
)
# How often each kind of variant is drawn where a line has a place for it.
_KINDS = {
    "replaced": 24,
    "around": 19,
    "line": 8,
    "alone": 1,
    "mark": 5,
    "name": 600,
    "number": 600,
    "sentence": 200,
    "short": 60,
    "addressed": 14,
    "word": 22,
    "lowercase": 9,
    "unmarked": 6,
    "quoted": 9,
}
# A pair with no more words, both sides together, is short: greetings are. Where
# words have no blanks between them, two letters count as one.
_MOST_WORDS_OF_SHORT = 7
_UNSPACED_WORD = re.compile(f"[{UNSPACED_LETTERS}]{{1,2}}|\\w")
# The most words of a variant in whose place a sign stands.
_MOST_SIGNS = 3
# The share of variants whose signs are numbered at random: a sentence has the
# first ones, but a model must know all.
_ANY_SIGNS = 0.3
# The share of drawn names that stand between signs, as names in tags do.
_IN_SIGNS = 0.15


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
            the corpus' files, without `.gz`. Signs in them are U+0001 to
            U+0008.
        share: float. Number of variants, as a share of the lines. Defaults to
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
    num_lines = corpus.check()
    # Lines all over the text.
    step = -(-num_lines // _MOST_LINES)
    twins = _Twins(
        [
            (clean_text(source), clean_text(target))
            for source, target in itertools.islice(corpus, 0, None, step)
        ]
    )
    writer = _Writer(twins, share, seed)
    with atomic_directory(directory) as folder:
        paths = [pathlib.Path(p).name for p in (written.source, written.target)]
        with (
            open(folder / paths[0], "w", encoding="utf-8") as source,
            open(folder / paths[1], "w", encoding="utf-8") as target,
        ):
            for pair in writer.lines(corpus):
                source.write(f"{pair[0]}\n")
                target.write(f"{pair[1]}\n")
    return dict(writer.counts)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Returns how many variants of which kind there are, as a line."""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
    return f"{sum(counts.values()):,}" + (f" ({shown})" if kinds else "")


# === Words that translate each other ===

_Span = tuple[int, int]


class _Place(NamedTuple):
    """Two words that translate each other, each once in its line.

    Attributes:
        word: the word of the source.
        is_same: whether it is the same in the target, or the same number.
        is_name: whether it may be a name.
        is_frequent: whether it is in many lines of the text.
        spans: the start and end of the words in the source and the target.
    """

    word: str
    is_same: bool
    is_name: bool
    is_frequent: bool
    spans: tuple[_Span, _Span]


def _words(line: str) -> dict[str, _Span]:
    """Returns the words that stand once in a line.

    Where words have no blanks around them, all short parts are words.
    """
    spans: dict[str, _Span | None] = {}
    for run in _WORD.finditer(line):
        for stretch in _STRETCH.finditer(line, *run.span()):
            for start, end in _parts(line, stretch.span()):
                word = line[start:end]
                spans[word] = None if word in spans else (start, end)
    return {word: span for word, span in spans.items() if span is not None}


def _parts(line: str, span: _Span) -> Iterator[_Span]:
    """Yields a word with blanks around it, or all short parts of others."""
    if not UNSPACED.match(line[span[0]]):
        yield span
        return
    units = [unit.span() for unit in _UNIT.finditer(line, *span)]
    for number, (start, end) in enumerate(units):
        yield start, end
        for _, end in units[number + 1 :]:
            if end - start > _LONGEST_PART:
                break
            yield start, end


class _Twins:
    """The words of a text that translate each other.

    Attributes:
        known: a counter of the words of both sides, in lowercase.
        exclamations: how each side writes one, such as "{} !" in French.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.exclamations = [
            _exclamation("".join(side)) for side in zip(*pairs)
        ]
        counts = [collections.Counter[str]() for _ in range(2)]
        for pair in pairs:
            for count, line in zip(counts, pair):
                count.update(_words(line).keys())
        frequent = [
            {word for word, number in count.items() if number >= _LEAST_COUNT}
            for count in counts
        ]
        lines_of: collections.Counter[str] = collections.Counter()
        together: dict[str, collections.Counter[str]] = {}
        for pair in pairs:
            own, others = (
                [word for word in _words(line) if word in known]
                for line, known in zip(pair, frequent)
            )
            if len(own) > _MOST_WORDS or len(others) > _MOST_WORDS:
                continue
            for word in own:
                if lines_of[word] < _MOST_LINES_OF_WORD:
                    lines_of[word] += 1
                    together.setdefault(word, collections.Counter()).update(
                        others
                    )
        # With the Dice coefficient of each.
        self._twins: dict[str, tuple[str, float]] = {}
        self._frequent = {
            word
            for word, count in counts[0].items()
            if count > _MOST_OFTEN * len(pairs)
        }
        for word, found in together.items():
            # The lines that have both, as far as these lines tell.
            scale = counts[0][word] / lines_of[word]
            # Of parts of words that are in the same lines, take the shortest:
            # the others are that word with letters around it.
            dice, _, twin = max(
                (
                    2 * scale * number / (counts[0][word] + counts[1][other]),
                    -len(other),
                    other,
                )
                for other, number in found.items()
            )
            same = word == twin
            if dice >= (_LEAST_DICE_OF_SAME if same else _LEAST_DICE):
                self._twins[word] = twin, dice
        self.known: collections.Counter[str] = collections.Counter()
        for count, words in zip(counts, frequent):
            for word in sorted(words):
                if word.isalpha():
                    self.known[word.lower()] += count[word]

    def places(self, source: str, target: str) -> list[_Place]:
        """Returns the places of a pair of lines, which do not overlap."""
        own, others = _words(source), _words(target)
        numbers = {_narrow(word): word for word in others if word.isdecimal()}
        found: list[tuple[float, _Place]] = []
        for word, span in own.items():
            twin, dice = self._twins.get(word, ("", 0.0))
            # As "2" or, if it has one or two digits, "two".
            is_number = word.isdecimal()
            if is_number and (_narrow(word) in numbers or len(word) > 2):
                twin, dice = numbers.get(_narrow(word), ""), 1.0
            if twin not in others:
                continue
            spans = span, others[twin]
            is_same = is_number or word == twin
            is_name = _may_be_name(word, twin)
            is_frequent = word in self._frequent
            place = _Place(word, is_same, is_name, is_frequent, spans)
            found.append((dice, place))
        # The surest first, then the longest, where parts of words are words.
        found.sort(key=lambda one: (-one[0], -len(one[1].word), one[1].spans))
        chosen: list[_Place] = []
        for _, place in found:
            if not any(_overlap(place, other) for other in chosen):
                chosen.append(place)
        return sorted(chosen, key=lambda place: place.spans)


def _exclamation(text: str) -> str:
    """Returns how a text writes most exclamations, with braces for words."""
    half = text.count("!") / 2
    opening = "\u00a1" if text.count("\u00a1") > half else ""
    return opening + ("{} !" if text.count(" !") > half else "{}!")


def _may_be_name(word: str, twin: str) -> bool:
    """Returns whether two words are a name, the same or one in katakana."""
    one, other = sorted((word, twin), key=lambda w: bool(_KATAKANA.match(w)))
    return (
        len(one) > 1
        and one[0].isupper()
        and (one == other or (one.isalpha() and bool(_KATAKANA.match(other))))
    )


def _is_short(pair: tuple[str, str]) -> bool:
    return sum(map(_num_words, pair)) <= _MOST_WORDS_OF_SHORT


def _num_words(line: str) -> int:
    word = _UNSPACED_WORD if UNSPACED.search(line) else _WORD
    return len(word.findall(line))


def _narrow(digits: str) -> str:
    """Returns digits without the wide ones of Japanese and Chinese."""
    return unicodedata.normalize("NFKC", digits)


def _overlap(one: _Place, other: _Place) -> bool:
    return any(
        mine[0] < theirs[1] and theirs[0] < mine[1]
        for mine, theirs in zip(one.spans, other.spans)
    )


# === Names and numbers ===

_LATIN = "abcdefghijklmnopqrstuvwxyz"
# The parts of a syllable; half of them are simple. Some begin with a vowel.
_SIMPLE = (
    [*"bcdfghjklmnprstvwz", *[""] * 4],
    [*"aeiou"],
    ["", "", "n", "r", "s", "l"],
)
_ALL = (
    "bl br ch cl cz dr fl fr gh gl gr h j kh kl kn kr kw ll mc ng nj ph pr q "
    "qu rh s sch sh sk sl sm sp st str sz t th tr ts tz v vl w wr x y z zh "
    "ł đ".split()
    + [""] * 8,
    "a e i o u y aa ae ai au ay ea ee ei eu ie io oa oe oo ou ow ue ui "
    "ø".split(),
    "ck d ff g k ll m n nd ng nn nt p r rd rk rn rt s sky ss st t th tt v wicz "
    "x z".split()
    + [""],
)
# Each letter with the marks that names have.
_MARKED = {
    letter: [
        mark
        # Latin-1, Latin Extended-A and Latin Extended Additional.
        for mark in map(chr, [*range(0xDF, 0x180), *range(0x1E00, 0x1F00)])
        if mark.islower() and unicodedata.normalize("NFD", mark)[0] == letter
    ]
    for letter in _LATIN
}
_MARKED_SHARE = 0.35


class _Names:
    """Draws names and numbers that nobody has heard."""

    def __init__(self, draws: random.Random, known: Mapping[str, int]) -> None:
        self._draws = draws
        # Names often begin or end like known words, and a model must learn not
        # to translate such names. The more often it has seen a word, the harder
        # that is. The square root leaves some names for rare words.
        self._known = [
            word
            for word in known
            if unicodedata.normalize("NFD", word)[0] in _LATIN
        ]
        self._weights = list(
            itertools.accumulate(math.sqrt(known[word]) for word in self._known)
        )

    def name(self) -> str:
        """Returns a name, every second one with a given name before it."""
        name = self._part()
        kind = self._draws.random()
        if kind < 0.04:
            name = f"{name}-{self._part()}"
        elif kind < 0.07:
            prefixes = ("O'", "Mc", "D'", "van ", "de ", "al-", "Mac", "von ")
            name = self._draws.choice(prefixes) + name
        return f"{self._part()} {name}" if self._draws.random() < 0.45 else name

    def number(self) -> str:
        """Returns an integer, or at times a decimal."""
        digits = self._draws.choices((1, 2, 3, 4, 5), (1, 5, 4, 4, 1))[0]
        whole = self._draws.randrange(10 ** (digits - 1), 10**digits)
        if self._draws.random() < 0.3:
            mark, cents = self._draws.choice("..,"), self._draws.randrange(100)
            return f"{whole}{mark}{cents}"
        return str(whole)

    def _part(self) -> str:
        """Returns a name; many have a part of a known word.

        "Shevchenko" begins like one in English, "Laitinen" ends like one in
        German. The rest of such a name is often short, as in "Milan".
        """
        start = end = ""
        shares = (2, 6, 3, 1)
        kind = self._draws.random()
        if self._known and kind < 0.6:
            (word,) = self._draws.choices(
                self._known, cum_weights=self._weights
            )
            shares = (5, 5, 2, 0)
            if kind < 0.45:
                start = word[: self._draws.randint(2, 5)]
            else:
                end = word[-self._draws.randint(2, 4) :]
        count = self._draws.choices((1, 2, 3, 4), shares)[0]
        syllables = (
            self._draws.choice(
                (_SIMPLE if self._draws.random() < 0.6 else _ALL)[part]
            )
            for _ in range(count)
            for part in range(3)
        )
        name = [*start, *"".join(syllables), *end]
        places = [i for i, letter in enumerate(name) if _MARKED.get(letter)]
        if places and self._draws.random() < _MARKED_SHARE:
            place = self._draws.choice(places)
            name[place] = self._draws.choice(_MARKED[name[place]])
        return "".join(name).capitalize()


# === Variants ===

_Pair = tuple[str, str]


class _Writer:
    """Makes the variants of lines."""

    def __init__(self, twins: _Twins, share: float, seed: int) -> None:
        self._twins = twins
        self._share = share
        self._draws = random.Random(seed)
        self._names = _Names(self._draws, twins.known)
        self.counts: collections.Counter[str] = collections.Counter()

    def lines(self, corpus: Iterable[_Pair]) -> Iterator[_Pair]:
        """Yields each pair of lines and its variants."""
        for source, target in corpus:
            pair = clean_text(source), clean_text(target)
            # As they were given, as files of lines stay comparable; but a stray
            # control character is no sign.
            yield without_signs(source), without_signs(target)
            if not all(pair):
                continue
            count = int(self._share)
            count += self._draws.random() < self._share - count
            if not count:
                continue
            places = self._twins.places(*pair)
            ways = self._ways(pair, places)
            for kind in self._draws.choices(
                list(ways), [_KINDS[kind] for kind in ways], k=count
            ):
                variant = getattr(self, f"_{kind}")(pair, ways[kind])
                if variant != pair or kind == "short":
                    self.counts[kind] += 1
                    yield variant

    def _ways(
        self, pair: _Pair, places: list[_Place]
    ) -> dict[str, list[_Place]]:
        """Returns the kinds of variants of a pair, and the places of each."""
        names = [
            place
            for place in places
            if place.is_name
            # Most first words of lines are no names. If many were invented
            # names, a model would take any first word for a name.
            and (place.spans[0][0] or self._draws.random() < 0.6)
        ]
        numbers = [place for place in places if place.word.isdecimal()]
        marks = [[*_MARK.finditer(line)] for line in pair]
        mark = [
            _Place(one[0], True, False, True, (one.span(), other.span()))
            for one, other in zip(*marks)
            if len(marks[0]) == 1 == len(marks[1]) and one[0] == other[0]
        ]
        ways = {
            "replaced": [
                place
                for place in places
                if place.is_same or not place.is_frequent
            ],
            "around": places,
            "mark": mark,
            "name": names,
            "number": numbers,
            "word": [
                place
                for place in places
                if not place.is_same and not place.is_frequent
            ],
        }
        sentences = [_SENTENCE_END.split(line) for line in pair]
        always = ["line", "alone", "lowercase", "unmarked", "quoted"]
        if all(map(_FINAL_MARK.search, pair)):
            always.append("addressed")
        if len(sentences[0]) == len(sentences[1]) > 1:
            always.append("sentence")
        elif _is_short(pair):
            always.append("short")
        return {
            **{kind: found for kind, found in ways.items() if found},
            **dict.fromkeys(always, []),
        }

    def _signs(self, count: int) -> str:
        if self._draws.random() < _ANY_SIGNS:
            return "".join(self._draws.sample(SIGNS, count))
        return SIGNS[:count]

    # === With signs ===

    def _replaced(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Puts signs in the place of words."""
        # Mostly what is the same on both sides: such things are kept.
        same = [place for place in places if place.is_same]
        if same and self._draws.random() < 0.7:
            places = same
        count = min(len(places), self._draws.choice((1, 1, 2, _MOST_SIGNS)))
        chosen = sorted(
            self._draws.sample(places, count), key=lambda place: place.spans
        )
        return _with(pair, zip(chosen, self._signs(count)))

    def _around(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Puts signs around two words, or beside them."""
        place = self._draws.choice(places)
        own, other = (
            line[slice(*span)] for line, span in zip(pair, place.spans)
        )
        return self._in_signs(pair, place, own, other)

    def _in_signs(
        self, pair: _Pair, place: _Place, own: str, other: str
    ) -> _Pair:
        first, last = tuple(self._signs(2))
        before, after = self._draws.choices(
            ((first, last), (first, ""), ("", first)), (4, 1, 1)
        )[0]
        source, target = (_joined(before, word, after) for word in (own, other))
        return _with(pair, [(place, source)], target)

    def _line(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Puts signs before, after or around a line."""
        first, last = tuple(self._signs(2))
        before, after = self._draws.choice(
            ((first, last), (first, ""), ("", first))
        )
        source, target = (
            _joined(before, line, after)
            if UNSPACED.search(line)
            else f"{before} {line} {after}".strip()
            for line in pair
        )
        return source, target

    def _alone(self, pair: _Pair, places: list[_Place]) -> _Pair:
        signs = " ".join(self._signs(self._draws.choice((1, 2))))
        return signs, signs

    def _mark(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Puts a sign in the place of a mark between words."""
        return _with(pair, [(places[0], self._signs(1))])

    # === As words ===

    def _name(self, pair: _Pair, places: list[_Place]) -> _Pair:
        if self._draws.random() < _IN_SIGNS:
            name = self._names.name()
            return self._in_signs(pair, self._draws.choice(places), name, name)
        return self._with_drawn(pair, places, self._names.name)

    def _addressed(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Puts a name before the final mark, as few lines have a name.

        Or a number, as those of two digits are words in some languages.
        """
        is_number = self._draws.random() < 0.1
        name = self._names.number() if is_number else self._names.name()
        source, target = (
            _FINAL_MARK.sub(
                lambda mark: (
                    ("、" if mark[0] in _WIDE_MARKS else ", ") + name + mark[0]
                ),
                line,
            )
            for line in pair
        )
        return source, target

    def _sentence(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Leaves one sentence, as lines are split before they are searched.

        With either of two final marks.
        """
        source, target = self._draws.choice(
            list(zip(*(_SENTENCE_END.split(line) for line in pair)))
        )
        return self._with_other_mark(source, target)

    def _short(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Repeats a short line, as a text has each greeting once or twice.

        One in Title Case is at times as `text.case` makes it.
        """
        source, target = pair
        is_title = source.istitle() and source.count(" ") > 1
        if is_title and self._draws.random() < 0.5:
            source = source.capitalize()
        return self._with_other_mark(source, target)

    def _with_other_mark(self, source: str, target: str) -> _Pair:
        found = [_STATEMENT.fullmatch(line) for line in (source, target)]
        if all(found):
            source, target = (match[1] for match in found if match)
            return self._marked(source, target, self._draws.choice(".!"))
        return source, target

    def _number(self, pair: _Pair, places: list[_Place]) -> _Pair:
        return self._with_drawn(pair, places, self._names.number)

    def _with_drawn(
        self, pair: _Pair, places: list[_Place], draw: Callable[[], str]
    ) -> _Pair:
        if self._draws.random() < 0.6:
            places = [self._draws.choice(places)]
        return _with(pair, [(place, draw()) for place in places])

    def _word(self, pair: _Pair, places: list[_Place]) -> _Pair:
        """Leaves a word, which few lines of most corpora do."""
        place = self._draws.choice(places)
        source, target = (
            line[slice(*span)] for line, span in zip(pair, place.spans)
        )
        if self._draws.random() < 0.7:
            source, target = (
                word[0].upper() + word[1:] for word in (source, target)
            )
        mark = self._draws.choice(("", "", "!", "."))
        return self._marked(source, target, mark)

    def _marked(self, source: str, target: str, mark: str) -> _Pair:
        """Returns texts with a final mark, as each language writes it."""
        source, target = (
            text + mark.translate(_WIDE)
            if _EAST_ASIAN.match(text[-1])
            else exclamation.format(text)
            if mark == "!"
            else text + mark
            for text, exclamation in zip(
                (source, target), self._twins.exclamations
            )
        )
        return source, target

    # === As people type ===

    def _lowercase(self, pair: _Pair, places: list[_Place]) -> _Pair:
        return pair[0].lower(), pair[1]

    def _unmarked(self, pair: _Pair, places: list[_Place]) -> _Pair:
        source, target = (
            _OPENING_MARK.sub("", _FINAL_MARK.sub("", line)) for line in pair
        )
        return (
            source.lower() if self._draws.random() < 0.5 else source
        ), target

    def _quoted(self, pair: _Pair, places: list[_Place]) -> _Pair:
        first, last = self._draws.choice(_QUOTES)
        source, target = (f"{first}{line}{last}" for line in pair)
        return source, target


def _with(
    pair: _Pair, texts: Iterable[tuple[_Place, str]], target: str | None = None
) -> _Pair:
    """Returns a pair with texts in some places.

    Args:
        texts: a place and a text each.
        target: the text in the target, if it is another one.
    """
    texts = list(texts)
    lines = list(pair)
    for side in (0, 1):
        # From the end, so that the spans before it stay where they are.
        for place, text in sorted(
            texts, key=lambda item: item[0].spans[side], reverse=True
        ):
            if side and target is not None:
                text = target
            start, end = place.spans[side]
            line = lines[side]
            before, after = line[:start], line[end:]
            lines[side] = _joined(before, text, after)
    return lines[0], lines[1]


def _joined(*parts: str) -> str:
    """Joins parts; as in prepared text, a blank is between a sign and a letter.

    Where words have no blanks around them, none is.
    """
    text = ""
    for part in parts:
        sides = text[-1:], part[:1]
        if any(side and side in SIGNS for side in sides) and any(
            side and is_of_spaced_word(side) for side in sides
        ):
            text += " "
        text += part
    return text
