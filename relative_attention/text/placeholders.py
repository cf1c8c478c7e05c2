"""Signs in the place of what must not be translated.

A sign is U+0001 to U+0008. A model that was trained with signs (see
`corpora.variants`) carries them over, and what they stand for is put back:

    line         Visit <b>our shop</b> at www.example.org!
    searched     Visit ␁ our shop ␂ at ␃!
    translation  Besuchen Sie ␁ unseren Laden ␂ unter ␃!
    line         Besuchen Sie <b>unseren Laden</b> unter www.example.org!
"""

import collections
import functools
import html
import itertools
import re
import string
import unicodedata
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from relative_attention.text.form import SIGNS
from relative_attention.text.form import UNSPACED
from relative_attention.text.form import UNSPACED_LETTERS
from relative_attention.text.form import clean_text
from relative_attention.text.form import is_of_spaced_word
from relative_attention.text.sentences import WITH_ORDINALS


class Thing(NamedTuple):
    """Something that must not be translated.

    Attributes:
        text: string, what is put back.
        is_word: bool. Whether it is a part of the sentence, such as an address
            or a number; otherwise it is a mark, a tag or an emoji.
        order: string. Things of the same kind stay in their order, whatever
            their signs do: tags, brackets, and fields without a name. Empty for
            others.
        is_glued_before, is_glued_after: bool. Whether a letter stood next to
            it, where its sign has a blank.
    """

    text: str
    is_word: bool
    order: str = ""
    is_glued_before: bool = False
    is_glued_after: bool = False


class _Found(NamedTuple):
    """A thing in a text, and where it is."""

    start: int
    end: int
    text: str
    is_word: bool
    order: str = ""


# === What becomes a sign ===

# Where words have no blanks around them, a thing stands among letters: as 2012
# in "彼は2012年に".
_IN_WORD = rf"[^\W_{UNSPACED_LETTERS}]"
_START = rf"(?<!{_IN_WORD})"
_END = rf"(?!{_IN_WORD})"
# Letters of Japanese and Chinese multiply the number before them, by 100 to
# 10 ** 12. What they make is translated: "2万5000" is 25,000.
_FACTOR = "[百千万萬亿億兆]"
# Part of a number, unless it stands between two things: "10-20".
_MINUS = rf"{_START}(?<!-)-"
_NUMBER_START = rf"{_START}(?<!{_FACTOR})"
_NUMBER_END = rf"{_END}(?![\d.,]{{0,20}}[ 多余]?{_FACTOR})"
# Things that are counted are no codes: "CD3枚".
_CODE_END = rf"{_END}(?![枚台回人個本匹冊杯])"
# Wide letters and digits, and what they are elsewhere; and what is wide between
# them. After other digits a wide comma divides a sentence.
_NARROW = {
    0xFEE0 + ord(narrow): narrow
    for narrow in f"{string.digits}{string.ascii_letters}$+,-./:"
} | {0xFFE1: "\u00a3", 0xFFE5: "\u00a5"}
_NARROW_LETTERS = {
    wide: narrow for wide, narrow in _NARROW.items() if narrow.isalpha()
}
_WIDE = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"
_WIDE_RUN = re.compile(
    rf"[\uff04\uffe1\uffe5]?[{_WIDE}]+(?:[\uff0b-\uff0f\uff1a][{_WIDE}]+)*"
    r"[\uff04\uffe1\uffe5]?"
)
# What ends an address without a blank: hiragana, and wide marks.
_ADDRESS_END = "\u3000-\u309f\uff00-\uff0f\uff1a-\uff20"
# Letters and digits of words in the Latin script, and what addresses have.
_LATIN = "0-9A-Za-z\u00c0-\u024f"
_IN_ADDRESS = rf"[{_LATIN}@%+~&=.:/?#_-]"
# Hosts and files without anything else are known by their ends.
_ENDS = (
    "com|org|net|edu|gov|info|io|app|dev|eu|at|be|ch|cn|co|cz|de|dk|es|fi|fr|"
    "ie|in|it|jp|kr|nl|no|pl|pt|ru|se|tr|tv|ua|uk|us|"
    "bat|bmp|c|cfg|conf|cpp|csv|css|doc|docx|epub|exe|gif|gz|h|htm|html|ini|"
    "ipynb|jar|java|jpeg|jpg|js|json|log|md|mkv|mov|mp3|mp4|odt|pdf|php|png|"
    "ppt|pptx|py|rar|rb|rs|rtf|sh|sql|svg|tar|tex|tif|toml|ts|tsv|txt|wav|webp|"
    "xls|xlsx|xml|yaml|yml|zip"
)
# A value in quotation marks may have ">". Numbers stand for tags in texts of
# programs: "<0>here</0>".
_TAG = re.compile(
    r"<!--.{0,2000}?-->|</?[A-Za-z][\w:.-]*"
    r"(?:\s(?>[^<>=]+|=\"[^\"<]*\"|='[^'<]*'|=)*)?/?>|</?\d{1,3}/?>"
)
_ENTITY = re.compile(r"&(?:[A-Za-z]\w{1,31}|#\d{1,7}|#x[\dA-Fa-f]{1,6});")
# Of lists: "[x]", "(a)", and "a)" before an item; ":-)".
_ITEM = re.compile(
    rf"\[[ xX]\]|\({_IN_WORD}\)|(?m:^){_IN_WORD}\)"
    r"|(?<!\S)[:;=]['\u2019]?-?[()DPpOo|*/](?![^\s.,!?])"
)
# Of Markdown: code, and the address of a link. In "`so' and `so'" no code ends
# before the second word.
_CODE_SPAN = re.compile(rf"``[^`]+``|(?<!{_IN_WORD})`[^`]+`(?!{_IN_WORD}{{2}})")
# The line that opens or ends a block of code.
_FENCE = re.compile(r"(?m:^(?:`{3,}|~{3,})[^\n`]*$)")
# Marks between letters that stand for an apostrophe, as in "don`t", and
# entities, which may stand for a letter.
_IN_LETTERS = re.compile(
    rf"({_CODE_SPAN.pattern}|{_TAG.pattern})"
    rf"|(?<=[^\W\d_{UNSPACED_LETTERS}])(?:\\?[`\u00b4]|\\['\u2019])"
    rf"(?=[^\W\d_{UNSPACED_LETTERS}])|{_ENTITY.pattern}"
)
_LINK_END = re.compile(r"\]\([^\s()]+\)")
_PHONE = re.compile(rf"{_START}\+\d[\d ()/.-]{{4,}}\d{_END}")
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IP = re.compile(
    rf"(?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?::\d+)?(?!\.?\w)"
    r"|(?<![\w:])(?:[\dA-Fa-f]{1,4}::?){3,7}[\dA-Fa-f]{1,4}(?![\w:])"
)
_ADDRESS = re.compile(
    # E-mail; any scheme; a host or a file, but not "B.C."; paths; names after
    # "@" and "#".
    rf"(?<![{_LATIN}.%+_-])(?:[{_LATIN}.%+_-]+@[{_LATIN}-]+(?:\.[{_LATIN}-]+)+"
    r"|(?:[A-Za-z][A-Za-z\d+.-]*://|(?i:www)\.|mailto:)"
    rf"[^\s<>\"|{_ADDRESS_END}]*[{_LATIN}/_-]"
    rf"|(?![^\W\d_](?:\.[^\W\d_])+{_END})(?:[{_LATIN}_.-]+/){{0,16}}"
    rf"[{_LATIN}_-]+(?:\.[{_LATIN}_-]+)*\.(?:{_ENDS}|{_ENDS.upper()})"
    rf"(?![{_LATIN}_])"
    rf"(?:[:/?#]{_IN_ADDRESS}*(?<=[{_LATIN}/_]))?"
    rf"|localhost[:/]{_IN_ADDRESS}*(?<=[{_LATIN}/_])"
    rf"|[A-Za-z]:\\[^\s<>\"|?*{_ADDRESS_END}]*[\w\\]"
    rf"|@(?=[{_LATIN}_]*[A-Za-z])[{_LATIN}_]+(?:[.-][{_LATIN}_]+)*"
    rf"|#(?=\w*[^\W\d_])\w+(?:[.-][{_LATIN}_]+)*)"
    rf"|(?<![\w/.])(?:~|\.{{1,2}})?/[{_LATIN}_.-]+(?:/[{_LATIN}_.-]+)+"
)
_NAMED_FIELD = re.compile(
    r"\{\{[^{}]*\}\}|\$\{[^{}]*\}|%?\{[^\W\d][\w.:!-]*\}"
    r"|\{\w+, ?(?:number|date|time)(?:,[^{}]*)?\}|%\([^()\s]+\)[#0 +-]*\d*"
    rf"(?:\.\d+)?[A-Za-z]|%[{_LATIN}_]{{2,}}%(?![%A-Za-z])"
    rf"|\$[A-Za-z_][{_LATIN}_]*"
    r"|%\d+\$[A-Za-z@]|\{\d[\w.:]*\}|__\w+?__|\\[nrt](?![a-z])"
)
# Around the cases of a message of ICU: "{n, plural, one {day} other {days}}".
_FIRST_CASE = re.compile(
    r"\{\w+, ?(?:plural|select|selectordinal),(?: ?offset:\d+)? ?=?\w+ ?\{"
)
_CASE = re.compile(rf"{_FIRST_CASE.pattern}|\}} ?=?\w+ ?\{{")
_FIELD = re.compile(
    r"\{\}|%%|%[+#0-]*(?:\d+|\*)?(?:\.\d+)?(?:l{0,2}[diouxX]|[sfFeEgGcrap@])"
    r"(?![A-Za-z])"
)
# Before a term that begins a sentence: tags, and marks but for those of ends.
# Atomic, as a comment is also a run of marks.
_BEFORE_TERM = re.compile(rf"(?>{_TAG.pattern}|[^\w.!?\u2026:\n])++$")
_MOST_BEFORE_TERM = 100
_CURRENCY = "[$\u00a3\u00a5\u20ac]"
# Dates, times and versions; and all other numbers but those of one and two
# digits, which models know as words. Models may leave out a minus.
_DIGITS = re.compile(
    rf"(?:(?:{_MINUS})?{_NUMBER_START}(?<![_.])"
    r"(?:\d{1,3}(?:['\u2019]\d{3})+(?:[.,]\d+)?|\d+(?:[.,:/\u2013-]\d+)+"
    # Groups of digits, as in telephone numbers.
    r"|\d{2,}(?: \d{2,}){2,}|\d{3,})"
    rf"|{_MINUS}\d\d?%?){_NUMBER_END}"
)
# Names in programs: "user_name", "userName" and "main()".
_NAME = re.compile(
    rf"{_START}(?:(?:[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+)"
    rf"(?:\(\))?|[A-Za-z]\w{{0,80}}\(\)){_END}"
)
# Letters and digits mixed, but not "21st", "5km" or "20-year-old". The bounds
# keep the time linear.
_CODE = re.compile(
    rf"{_START}(?=[A-Za-z0-9_./-]{{0,80}}[0-9])"
    r"(?=[A-Za-z0-9_./-]{0,80}[A-Za-z])"
    rf"(?!\d+[.,]?\d*[a-z\u00c0-\u024f]{{1,4}}{_END}(?![-_/\d]))"
    r"[A-Za-z0-9_]+(?:[./-](?![a-z]{3})[A-Za-z0-9_]+)*"
    rf"{_CODE_END}(?!-[a-z\u00c0-\u024f])"
)
_SMALL = "\u00b2\u00b3\u00b9\u2070-\u208e"
_UNIT = re.compile(
    # Degrees; the number of French; "m\u00b2" and "CO\u2082".
    rf"(?:(?:{_MINUS})?{_NUMBER_START}(?<![\d.,:/_\u2013-])\d{{1,3}} ?)?"
    rf"\u00b0(?:[CFK]{_END})?|{_START}[nN]\u00b0 ?\d+"
    rf"|(?<![^\W\d_])[A-Za-z\u00b5]{{1,3}}[{_SMALL}]+{_END}"
    rf"|{_START}(?:[A-Z][a-z]?(?:\d+|[{_SMALL}]+)?){{1,16}}(?<=[{_SMALL}]){_END}"
    # Not "and/or" in Italian and Spanish.
    rf"|{_START}[^\W\d_{UNSPACED_LETTERS}]{{1,3}}/(?!o)"
    rf"[^\W\d_{UNSPACED_LETTERS}]{_END}"
)
# Before an item of a list or what someone says, or without blanks; arrows; dots
# at the end.
_DASH = re.compile(
    r"(?:(?m:^)|(?<=[.!?\u2026] ))(?:[-\u2013\u2014]{1,2}(?= )|\u2014)"
    r"|(?<=[^\W\d_])[\u2013\u2014](?=[^\W\d_])"
    r"|[-!<=>]+[<=>]|<-+(?!\d)"
    r"|\u2026(?=[\"\u201d\u00bb) ]{0,3}(?m:$))"
)
# Of commands. "-x" has a word before it, as "-Yes" may begin what someone says.
_OPTION = re.compile(r"(?<=\w )-[a-z](?!\w)|(?<![^\s(])--[a-z][a-z\d-]+(?!\w)")
# What belongs together if a thing is on both sides.
_BETWEEN = re.compile(r" *|[-\u2013:'\u2019/=]{1,2}")
# The number of a line in a list. Other languages write "1." for "1st".
_LINE_NUMBER = re.compile(
    r"(?m:^)(?:\d{1,3}[.\uff0e](?!\d)|\uff08\w{1,2}\uff09)"
)
# A run of letters and of what belongs to them, or any other character.
_WORD = re.compile(r"[^\W\d_]+")
# Of letters in Indian and Persian words.
_JOINERS = "\u200c\u200d"
_EMOJI_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
# Marks that are neither punctuation of sentences nor symbols of Unicode.
_KEPT_MARKS = "#&*/@\\_\u00a7\u2022"
_BRACKET = re.compile(r"[()\[\]{}]")
_ENDS_IN_ORDINAL = re.compile(r"(?<!\d)\d{1,3}$")
# What closes, with no blank before it, and what opens, with none after it.
CLOSING = re.compile(r"^(?:</[A-Za-z\d][^<>]*>|[)\]}])")
_OPENING = re.compile(r"(?:<[A-Za-z\d][^<>]*(?<!/)>|[(\[{])$")


def _amounts(group: str, decimal: str) -> re.Pattern[str]:
    """Returns a pattern of numbers with separators, and of sums of money.

    As "1,500", "10,000-20,000", "2.5GB" and "US$ 50".
    """
    group = " " if group.isspace() else re.escape(group)
    decimal = re.escape(decimal)
    one = (
        rf"(?:[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}"
        rf"(?:{decimal}\d+)?|\d+{decimal}\d+)"
    )
    number = rf"(?:(?:{one}|\d+)[-\u2013])?{one}"
    before = rf"(?:{_MINUS})?{_NUMBER_START}(?<![_.,:/])"
    start = rf"{before}(?<!\w-)(?<!\d{group})(?<!\d['\u2019])"
    end = rf"(?!{decimal}?\d|{group}\d|[:/-]\d)(?![ 多余]?{_FACTOR})"
    return re.compile(
        rf"{before}[A-Z]{{0,3}}{_CURRENCY} ?(?:{number}|\d+){end}"
        rf"(?:(?:[kKMmBbT]|[bmt]n){_END})?"
        rf"|{start}(?:(?:{number}|\d+){end} ?{_CURRENCY}"
        # Not "3.30pm".
        rf"|{number}{end}(?:(?!st|nd|rd|th|[ap]m)[A-Za-z\u00b5]{{1,3}})?{_END})"
    )


def _separators(language: str) -> tuple[str, str]:
    """Returns what groups digits, and what stands before decimals."""
    from babel import UnknownLocaleError
    from babel.numbers import get_decimal_symbol
    from babel.numbers import get_group_symbol

    try:
        return get_group_symbol(language), get_decimal_symbol(language)
    except (UnknownLocaleError, ValueError):
        return ",", "."


class Placeholders:
    """Finds what must not be translated.

    Args:
        has_piece: function that returns whether a character has a piece in the
            vocabularies.
        source_language: string, a language code, or `None`.
        target_language: the same. If both are known, numbers get the
            separators of the target's, and wide digits and Latin letters
            become narrow.
        keep: list of patterns whose matches stay as they are.
        glossary: dict of terms of the source to what stands for them. Whole
            words are found, in the case as given, or with a capital at the
            beginning of a sentence; the longest first.
    """

    def __init__(
        self,
        has_piece: Callable[[str], bool],
        source_language: str | None = None,
        target_language: str | None = None,
        keep: Iterable[re.Pattern[str]] = (),
        glossary: Mapping[str, str] | None = None,
    ) -> None:
        self._has_piece = has_piece
        self._known: dict[str, bool] = {}
        self._keep = tuple(keep)
        # In the form of the text that they are looked for in.
        self._glossary = {
            clean_text(term): clean_text(target)
            for term, target in (glossary or {}).items()
        }
        # At the beginning of a sentence.
        self._capitalized = {
            _capitalized(term): _capitalized(target)
            for term, target in self._glossary.items()
        }
        self._terms = _terms((*self._glossary, *self._capitalized))
        self._separators: dict[int, str] = {}
        symbols = (",", ".")
        if source_language is not None:
            symbols = _separators(source_language)
            if target_language is not None:
                own = (" " if sign.isspace() else sign for sign in symbols)
                self._separators = str.maketrans(
                    dict(zip(own, _separators(target_language)))
                )
        self._amounts = _amounts(*symbols)
        self._numbers_lines = not (
            source_language is None or source_language in WITH_ORDINALS
        )
        self._narrow = _NARROW_LETTERS | {
            ord(wide): narrow
            for wide, narrow in (("\uff1a", ":"), ("\uff1b", ";"))
            if has_piece(narrow) and not has_piece(wide)
        }

    def with_signs(self, text: str) -> tuple[str, list[Thing]]:
        """Returns a text with a sign for every thing, and the things.

        It is `SIGNS[1]` for what ends in an ordinal's number, so that no
        sentence is ended there, and else `SIGNS[0]`. The signs are `numbered`
        later, when sentences are known.

        Args:
            text: string, a clean text, maybe with line ends.
        """
        text = _IN_LETTERS.sub(_plain, text)
        parts: list[str] = []
        things: list[Thing] = []
        end = 0
        read = self._with_narrow_letters(text)
        for found in self._joined(text):
            before = read[end : found.start]
            after = read[found.end : found.end + 1]
            last = before[-1:] or ("" if end == 0 else SIGNS[0])
            glued = [is_of_spaced_word(char) for char in (last, after)]
            sign = SIGNS[bool(_ENDS_IN_ORDINAL.search(found.text))]
            parts += [before, " " * glued[0], sign, " " * glued[1]]
            # Another language may have blanks outside brackets, not inside.
            for side, char, mark in ((0, last, CLOSING), (1, after, _OPENING)):
                if UNSPACED.match(char) and mark.search(found.text):
                    glued[side] = True
            things.append(Thing(found.text, found.is_word, found.order, *glued))
            end = found.end
        return "".join([*parts, read[end:]]), things

    def _with_narrow_letters(self, text: str) -> str:
        """Returns a text of the same length, as vocabularies know it."""
        return text.translate(self._narrow) if self._separators else text

    def _joined(self, text: str) -> Iterator[_Found]:
        """Yields things in a text; neighbors are one."""
        last: _Found | None = None
        for found in self._found(text):
            if last is None:
                last = found
                continue
            between = text[last.end : found.start]
            if not _BETWEEN.fullmatch(between):
                yield _settled(last)
                last = found
            else:
                last = _Found(
                    last.start,
                    found.end,
                    f"{last.text}{between}{found.text}",
                    last.is_word or found.is_word,
                    # A tag, if there is one.
                    max(last.order, found.order),
                )
        if last is not None:
            yield _settled(last)

    def _found(self, text: str) -> list[_Found]:
        """Returns all things of a text, in its order."""
        found: list[_Found] = []
        taken = bytearray(len(text))

        def add(
            span: tuple[int, int],
            shown: str | None = None,
            is_word: bool = True,
            order: str = "",
        ) -> None:
            start, end = span
            if start < end and not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                shown = text[start:end] if shown is None else shown
                found.append(_Found(start, end, shown, is_word, order))

        # Where an address, a tag or a field ends, by its characters.
        ends: dict[int, tuple[int, int]] = {}
        if self._glossary or self._keep:
            for pattern in (_CODE_SPAN, _TAG, _ADDRESS, _NAMED_FIELD):
                for match in pattern.finditer(text):
                    ends |= dict.fromkeys(range(*match.span()), match.span())

        def is_part(span: tuple[int, int]) -> bool:
            larger = ends.get(span[0], span)
            return larger != span and span[1] <= larger[1]

        for match in self._terms.finditer(text) if self._glossary else ():
            target = self._target_of(match)
            if target is not None and not is_part(match.span()):
                add(match.span(), target)
        for pattern in self._keep:
            for match in pattern.finditer(text):
                if not is_part(match.span()):
                    add(match.span())
        first = [(_CASE, False, "bracket")] if _FIRST_CASE.search(text) else []
        for pattern, is_word, order in (*first, *_KINDS):
            for match in pattern.finditer(text):
                add(match.span(), match[0], is_word, order)
        if self._numbers_lines:
            for match in _LINE_NUMBER.finditer(text):
                add(match.span(), match[0], is_word=False)
        narrow = text
        if self._separators:
            narrow = _WIDE_RUN.sub(lambda run: run[0].translate(_NARROW), text)
        for match in self._amounts.finditer(narrow):
            # The blank before a currency is no separator.
            shown = re.sub(
                r"(?<=\d)\D(?=\d)",
                lambda mark: mark[0].translate(self._separators),
                match[0],
            )
            add(match.span(), shown)
        for pattern in (_CODE, _DIGITS):
            for match in pattern.finditer(narrow):
                add(match.span(), match[0])
        for start, end, is_word in self._unknown(
            self._with_narrow_letters(text)
        ):
            add((start, end), is_word=is_word)
        return sorted(found)

    def _target_of(self, match: re.Match[str]) -> str | None:
        """Returns what stands for a term, `None` where it is not one."""
        term = match[0]
        after = match.string[match.end() : match.end() + 1]
        if after and unicodedata.category(after)[0] == "M":
            # A vowel of an Indian script belongs to the letter before it.
            return None
        if term in self._glossary:
            return self._glossary[term]
        first = max(match.start() - _MOST_BEFORE_TERM, 0)
        before = _BEFORE_TERM.sub("", match.string[first : match.start()])
        if before and before[-1] not in ".!?\u2026:\n":
            return None
        return self._capitalized[term]

    def _unknown(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Yields words and marks for which the vocabularies have no piece."""
        start = 0
        for kind, run in itertools.groupby(text, _kind_of_letter):
            length = len(characters := list(run))
            letters = [c for c in characters if c.isalpha()]
            if kind and letters:
                # A word is one to translate if most of its letters are known:
                # a vocabulary may have a letter or two of another script.
                if 2 * sum(map(self._is_known, letters)) <= len(letters):
                    yield start, start + length, True
            else:
                for place, char in enumerate(characters, start):
                    if not char.isspace() and (
                        _is_kept_mark(char) or not self._is_known(char)
                    ):
                        yield place, place + 1, char.isalnum()
            start += length

    def _is_known(self, character: str) -> bool:
        known = self._known.get(character)
        if known is None:
            known = self._known[character] = self._has_piece(character)
        return known


def _settled(found: _Found) -> _Found:
    """Returns a thing without order if all that it opens ends in it.

    As "(100)", which is a word that may move.
    """
    if not (found.is_word and found.order) or _FIELD.search(found.text):
        return found
    opened: list[str] = []
    for mark in _PAIRED.finditer(found.text):
        name, is_end = _name_and_end(mark)
        if opened and opened[-1] == name and (is_end or mark["mark"]):
            opened.pop()
        elif is_end:
            return found
        else:
            opened.append(name)
    return found if opened else found._replace(order="")


# What finds things of each kind, whether they are words, and their order.
_KINDS = (
    (_FENCE, False, ""),
    (_CODE_SPAN, True, ""),
    (_TAG, False, "tag"),
    (_ENTITY, False, ""),
    (_LINK_END, False, ""),
    (_ADDRESS, True, ""),
    (_NAMED_FIELD, True, ""),
    (_FIELD, True, "field"),
    (_NAME, True, ""),
    (_PHONE, True, ""),
    (_IP, True, ""),
    (_UNIT, True, ""),
    (_ITEM, False, ""),
    (_DASH, False, ""),
    (_OPTION, True, ""),
    (_BRACKET, False, "bracket"),
)


@functools.lru_cache(maxsize=8)
def _terms(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern of terms, the longest first."""
    return re.compile(
        "|".join(
            _edge(term[0], "(?<!") + re.escape(term) + _edge(term[-1], "(?!")
            for term in sorted(set(terms), key=lambda term: (-len(term), term))
        )
    )


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _edge(character: str, look: str) -> str:
    r"""Returns what makes a word whole, where words have blanks."""
    return rf"{look}\w)" if is_of_spaced_word(character) else ""


def _kind_of_letter(character: str) -> int:
    """Returns 0 for no letter, 1 for one of a word with blanks around it, or 2.

    In "Москваに", Japanese follows a word of another script.
    """
    if unicodedata.category(character)[0] in "LM" or character in _JOINERS:
        return 2 if UNSPACED.match(character) else 1
    return 0


def _is_kept_mark(character: str) -> bool:
    """Returns whether a character is no punctuation of sentences.

    A model has seen few of them, even where the vocabulary has a piece.
    """
    category = unicodedata.category(character)
    return (
        character in _KEPT_MARKS
        or character in _EMOJI_JOINERS
        or category[0] == "S"
        # Small digits and fractions.
        or category == "No"
    )


def _plain(found: re.Match[str]) -> str:
    """Returns what stands for a match of `_IN_LETTERS` in a text without it."""
    if found[1]:
        return found[1]
    if not found[0].startswith("&"):
        return "'"
    letter = html.unescape(found[0])
    return letter if letter in "'\u2019" or letter.isalpha() else found[0]


# === Putting back ===

_SIGN = re.compile(f"[{SIGNS}]")


def numbered(text: str) -> str:
    """Returns a text with its signs numbered, from the first."""
    signs = itertools.cycle(SIGNS)
    return _SIGN.sub(lambda _: next(signs), text)


def num_signs(text: str) -> int:
    """Returns how many signs a text has."""
    return len(_SIGN.findall(text))


def without_signs(text: str) -> str:
    """Returns a text without signs, for which nothing stands."""
    return _SIGN.sub("", text)


def has_all_signs(text: str, count: int) -> bool:
    """Returns whether a text has each of the first signs once, and no other."""
    return sorted(_SIGN.findall(text)) == sorted(SIGNS[:count])


def with_things(text: str, things: Sequence[Thing]) -> str:
    """Returns a text with things in the place of their signs.

    Args:
        text: string, with each sign once.
        things: list of `Thing`, by the numbers of their signs.
    """
    numbers = [SIGNS.index(sign) for sign in _SIGN.findall(text)]
    # Signs of a kind that keeps its order take the places of their kind.
    ordered = {
        order: iter([thing for thing in things if thing.order == order])
        for order in {thing.order for thing in things}
    }
    chosen = [
        next(ordered[things[number].order])
        if things[number].order
        else things[number]
        for number in numbers
    ]
    return joined(_SIGN.split(text), chosen)


def joined(parts: Sequence[str], things: Sequence[Thing]) -> str:
    """Returns parts of a text with a thing between any two."""
    text = parts[0]
    for thing, part in zip(things, parts[1:]):
        # The blank beside a sign was added, or the language has no blanks
        # between words.
        if text.endswith(" ") and (
            thing.is_glued_before or UNSPACED.match(text[-2:-1])
        ):
            text = text[:-1]
        if part.startswith(" ") and (
            thing.is_glued_after or UNSPACED.match(part[1:2])
        ):
            part = part[1:]
        text = f"{text}{thing.text}{part}"
    return text


# Tags and brackets, and marks of Markdown, which open what they close, too.
_PAIRED = re.compile(
    r"<(?P<end>/?)(?P<tag>[A-Za-z][\w:.-]*|\d+)[^<>]*>"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<mark>[*_~]+)"
)
_BRACKETS = dict(zip(")]}", "([{"))


def _name_and_end(mark: re.Match[str]) -> tuple[str, bool]:
    """Returns what a match of `_PAIRED` opens or ends, and whether it ends."""
    name = mark["tag"] or mark["mark"] or mark["open"]
    return name or _BRACKETS[mark["close"]], bool(mark["end"] or mark["close"])


def _partners(
    parts: Sequence[str], things: Sequence[Thing]
) -> dict[int, set[int]]:
    """Returns, for things that open or close, the numbers of their partners."""
    partners: dict[int, set[int]] = collections.defaultdict(set)
    opened: list[tuple[str, int]] = []
    num_open: collections.Counter[str] = collections.Counter()
    for number, (thing, part) in enumerate(zip(things, parts[1:])):
        if thing.is_word and not thing.order:
            continue
        # The mark of an item has a blank after it.
        is_item = part.startswith(" ") and not thing.is_glued_after
        for found in _PAIRED.finditer(thing.text):
            name, is_end = _name_and_end(found)
            if num_open[name] and (is_end or found["mark"]):
                other = ""
                while other != name:
                    other, start = opened.pop()
                    num_open[other] -= 1
                partners[start].add(number)
                partners[number].add(start)
            elif not (is_end or (found["mark"] and is_item)):
                opened.append((name, number))
                num_open[name] += 1
    return partners


def without_outer(
    text: str, things: Sequence[Thing]
) -> tuple[str, str, str, Sequence[Thing]]:
    """Cuts the marks off a sentence, which no model need carry over.

    What opens something stays if it ends within the sentence, as "<b>" of
    "<b>Tom</b> came." does.

    Args:
        text: string, with a sign for each thing.
        things: list of `Thing`.

    Returns:
        What is before, the sentence, what is after it, and the things that are
        left in the sentence.
    """
    parts = _SIGN.split(text)
    first, last = 0, len(things)
    while (
        first < last and not things[first].is_word and not parts[first].strip()
    ):
        first += 1
    while (
        last > first
        and not things[last - 1].is_word
        and not parts[last].strip()
    ):
        last -= 1
    # What opens and what closes are around words that the model may move.
    partners = _partners(parts, things)
    inside = list(range(first, last))
    while inside:
        for number in partners.get(inside.pop(), ()):
            if number < first:
                inside += range(number, first)
                first = number
            elif number >= last:
                inside += range(last, number + 1)
                last = number + 1
    before = joined([*parts[:first], ""], things[:first]) if first else ""
    after = (
        joined(["", *parts[last + 1 :]], things[last:])
        if last < len(things)
        else ""
    )
    inner = parts[first : last + 1]
    signs = [*_SIGN.findall(text)[first:last], ""]
    start, end = inner[0], inner[-1]
    if first:
        blank = start[: len(start) - len(start.lstrip())]
        before += "" if things[first - 1].is_glued_after else blank
        inner[0] = start = start.lstrip()
    if last < len(things):
        end = inner[-1]
        blank = end[len(end.rstrip()) :]
        after = ("" if things[last].is_glued_before else blank) + after
        inner[-1] = end.rstrip()
    whole = "".join(part + sign for part, sign in zip(inner, signs))
    return before, whole, after, things[first:last]
