"""Signs in the place of what must not be translated.

A sign is U+0001 to U+0008. A model that was trained with signs (see
`corpora.variants`) carries them over, and what they stand for is put back:

    line         Visit <b>our shop</b> at www.example.org!
    searched     Visit ␁ our shop ␂ at ␃!
    translation  Besuchen Sie ␁ unseren Laden ␂ unter ␃!
    line         Besuchen Sie <b>unseren Laden</b> unter www.example.org!
"""

import functools
import html
import itertools
import re
import unicodedata
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from relative_attention.text import patterns
from relative_attention.text.form import SIGNS
from relative_attention.text.form import UNSPACED
from relative_attention.text.form import clean_text
from relative_attention.text.form import is_of_spaced_word
from relative_attention.text.sentences import WITH_ORDINALS
from relative_attention.text.signs import Thing
from relative_attention.text.signs import name_and_end

_MOST_BEFORE_TERM = 100
# Of letters in Indian and Persian words.
_JOINERS = "\u200c\u200d"
_EMOJI_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
# Marks that are neither punctuation of sentences nor symbols of Unicode.
_KEPT_MARKS = "#&*/@\\_\u00a7\u2022"


class _Found(NamedTuple):
    """A thing in a text, and where it is."""

    start: int
    end: int
    text: str
    is_word: bool
    order: str = ""


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
        self._amounts = patterns.amounts(*symbols)
        self._numbers_lines = not (
            source_language is None or source_language in WITH_ORDINALS
        )
        self._narrow = patterns.NARROW_LETTERS | {
            ord(wide): narrow
            for wide, narrow in (("\uff1a", ":"), ("\uff1b", ";"))
            if has_piece(narrow) and not has_piece(wide)
        }

    def with_signs(self, text: str) -> tuple[str, list[Thing]]:
        """Returns a text with a sign for every thing, and the things.

        It is `SIGNS[1]` for what ends in an ordinal's number, so that no
        sentence is ended there, `SIGNS[2]` for what may close a sentence, such
        as a quotation mark, and else `SIGNS[0]`. The signs are `numbered`
        later, when sentences are known.

        Args:
            text: string, a clean text, maybe with line ends.
        """
        text = patterns.IN_LETTERS.sub(_plain, text)
        parts: list[str] = []
        things: list[Thing] = []
        end = 0
        read = self._with_narrow_letters(text)
        for found in self._joined(text):
            before = read[end : found.start]
            after = read[found.end : found.end + 1]
            last = before[-1:] or ("" if end == 0 else SIGNS[0])
            glued = [is_of_spaced_word(char) for char in (last, after)]
            parts += [before, " " * glued[0], _sign(found), " " * glued[1]]
            # Another language may have blanks outside brackets, not inside.
            for side, char, mark in (
                (0, last, patterns.CLOSING),
                (1, after, patterns.OPENING),
            ):
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
            if not patterns.BETWEEN.fullmatch(between):
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
            for pattern in (
                patterns.CODE_SPAN,
                patterns.TAG,
                patterns.ADDRESS,
                patterns.NAMED_FIELD,
            ):
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
        first = (
            [(patterns.CASE, False, "bracket")]
            if patterns.FIRST_CASE.search(text)
            else []
        )
        for pattern, is_word, order in (*first, *patterns.KINDS):
            for match in pattern.finditer(text):
                add(match.span(), match[0], is_word, order)
        if self._numbers_lines:
            for match in patterns.LINE_NUMBER.finditer(text):
                add(match.span(), match[0], is_word=False)
        narrow = text
        if self._separators:
            narrow = patterns.WIDE_RUN.sub(
                lambda run: run[0].translate(patterns.NARROW), text
            )
        for match in self._amounts.finditer(narrow):
            # The blank before a currency is no separator.
            shown = re.sub(
                r"(?<=\d)\D(?=\d)",
                lambda mark: mark[0].translate(self._separators),
                match[0],
            )
            add(match.span(), shown)
        for pattern in (patterns.CODE, patterns.DIGITS):
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
        before = patterns.BEFORE_TERM.sub(
            "", match.string[first : match.start()]
        )
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


def _sign(found: _Found) -> str:
    """Returns the sign by which sentences are split, see `with_signs`."""
    if patterns.ENDS_IN_ORDINAL.search(found.text):
        return SIGNS[1]
    is_closing = not (found.is_word or patterns.OPENING.search(found.text))
    return SIGNS[2 * is_closing]


def _settled(found: _Found) -> _Found:
    """Returns a thing without order if all that it opens ends in it.

    As "(100)", which is a word that may move.
    """
    if not (found.is_word and found.order) or patterns.FIELD.search(found.text):
        return found
    opened: list[str] = []
    for mark in patterns.PAIRED.finditer(found.text):
        name, is_end = name_and_end(mark)
        if opened and opened[-1] == name and (is_end or mark["mark"]):
            opened.pop()
        elif is_end:
            return found
        else:
            opened.append(name)
    return found if opened else found._replace(order="")


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
    """Returns what stands for a match of `IN_LETTERS` in a text without it."""
    if found[1]:
        return found[1]
    if not found[0].startswith("&"):
        return "'"
    letter = html.unescape(found[0])
    return letter if letter in "'\u2019" or letter.isalpha() else found[0]
