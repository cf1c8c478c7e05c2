"""Lines as the sentences that a model searches translations for, and back.

line          BUY MILK! 🙂  "VISIT WWW.EXAMPLE.ORG."
searched      Buy milk!        Visit ␁.
translations  Kauft Milch!     Besucht ␁.
line          KAUFT MILCH! 🙂 "BESUCHT WWW.EXAMPLE.ORG."
"""

import collections
import dataclasses
import itertools
import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from relative_attention.text import case
from relative_attention.text.form import SIGNS
from relative_attention.text.form import UNSPACED
from relative_attention.text.form import clean_lines
from relative_attention.text.patterns import CLOSING
from relative_attention.text.patterns import NARROW
from relative_attention.text.patterns import SMALL_NUMBER
from relative_attention.text.placeholders import Placeholders
from relative_attention.text.sentences import split_sentences
from relative_attention.text.signs import Thing
from relative_attention.text.signs import has_all_signs
from relative_attention.text.signs import joined
from relative_attention.text.signs import num_signs
from relative_attention.text.signs import numbered
from relative_attention.text.signs import with_things
from relative_attention.text.signs import without_outer
from relative_attention.text.signs import without_signs

# Marks that end sentences where no blank follows.
_UNSPACED_END = re.compile(r"[\u3002\uff01\uff1f\u300d\u300f\uff09\u2026]")
# In Markdown: what begins a line in which the sentence before it does not
# continue, and what makes a line a heading, a row of a table or a fence.
_ITEM_START = re.compile(
    r"[-*+\u2013\u2014] |[\u2022\u00b7>|]|#+ |\d{1,3}[.)] |`{3}|~{3}"
)
_HEADING_START = re.compile(r"#+ |\||`{3}|~{3}")
# Marks within sentences that have no blank after them, but have one elsewhere.
_WIDE_COMMA = re.compile(r"[\u3001\uff0c\uff1a\uff1b]")
_TWO_DIGITS = re.compile(r"(?<!\d)\d\d(?!\d)")
_SIGN_OR_SMALL_NUMBER = re.compile(f"[{SIGNS}]|{SMALL_NUMBER.pattern}")


class Sentence(NamedTuple):
    """A sentence of a line.

    Attributes:
        text: string, to search a translation for, with numbered signs.
        things: tuple of `Thing`, what the signs stand for, by their numbers.
        before, after: strings, what stands around it in the line.
        blank: string, what is between it and the next one.
        raised_for: string, the language in whose capitals its translation is
            to be; empty if the language is unknown, `None` if it is not in
            capitals.
        is_capitalized: bool. Whether only the first letter is a capital.
        is_kept: bool. Whether it is its own translation.
        is_tidied: bool. Whether halves of characters and doubled blanks are
            left out of its translation.
        numbers: tuple of strings, the numbers of two digits in `text`, which
            its translation should have.
    """

    text: str
    things: tuple[Thing, ...] = ()
    before: str = ""
    after: str = ""
    blank: str = ""
    raised_for: str | None = None
    is_capitalized: bool = False
    is_kept: bool = False
    is_tidied: bool = False
    numbers: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether there is a sign for each thing."""
        return len(self.things) <= len(SIGNS)

    def restored(self, translation: str) -> str | None:
        """Returns the translation of the sentence, from a translated `text`.

        Returns `None` if the translation lacks a sign, or has one twice.
        """
        if not self.things:
            # It was searched with others that have signs.
            if self.numbers:
                translation = without_signs(translation)
            return self._raised(translation)
        if not has_all_signs(translation, len(self.things)):
            return None
        return with_things(self._raised(translation), self.things)

    def has_numbers_in(self, translation: str) -> bool:
        """Returns whether a translated `text` has all `numbers`."""
        found = _TWO_DIGITS.findall(translation)
        # By their values, as they may be wide, or of another script.
        counts, needed = (
            collections.Counter(map(int, some))
            for some in (found, self.numbers)
        )
        return needed <= counts

    def with_signs_for_numbers(self) -> "Sentence":
        """Returns the sentence with signs in the place of its `numbers`."""
        things = iter(self.things)
        return self._replace(
            text=numbered(_SIGN_OR_SMALL_NUMBER.sub(SIGNS[0], self.text)),
            things=tuple(
                next(things)
                if found[0] in SIGNS
                else Thing(found[0].translate(NARROW), is_word=True)
                for found in _SIGN_OR_SMALL_NUMBER.finditer(self.text)
            ),
            numbers=(),
        )

    def parts(self) -> list[str]:
        """Returns the text between the signs."""
        return re.split(f"[{SIGNS}]", self.text)

    def joined(self, translations: Sequence[str]) -> str:
        """Returns the translation of the sentence, from translated parts."""
        parts = [
            _with_blanks_of(part, self._raised(translation))
            if part.strip()
            else part
            for part, translation in zip(self.parts(), translations)
        ]
        return joined(parts, self.things).strip(" ")

    def _raised(self, text: str) -> str:
        if self.is_tidied:
            text = " ".join(text.replace("\ufffd", "").split())
        if self.raised_for is None:
            return text
        if self.is_capitalized:
            return case.capitalized(text, self.raised_for)
        return case.upper(text, self.raised_for)


@dataclasses.dataclass(frozen=True)
class TextRules:
    """Prepares lines for a model, and makes lines of its translations.

    Attributes:
        encode: the method of the source vocabulary.
        language: string, the code of the language of the source; `None` if it
            is unknown.
        target_language: string or `None`.
        splits: bool. Whether lines are split into sentences.
        usual_case: bool. Whether lines in capitals, in Title Case and in
            lowercase are searched in their usual case, and sentences in
            quotation marks without these.
        placeholders: `Placeholders`, which find what must not be translated;
            `None` leaves all in the text.
    """

    encode: case.Encode
    language: str | None = None
    target_language: str | None = None
    splits: bool = False
    usual_case: bool = False
    placeholders: Placeholders | None = None

    def prepare(self, line: str) -> list[Sentence]:
        """Returns the sentences of a line, at least one."""
        if not (self.splits or self.usual_case or self.placeholders):
            return [Sentence(line)]
        text = clean_lines(line)
        if not self.splits or self.language is None:
            return self._sentences(text)
        sentences: list[Sentence] = []
        blocks = _blocks(text)
        for block, blank in blocks:
            sentences += self._sentences(block, is_line=len(blocks) == 1)
            if blank:
                sentences[-1] = sentences[-1]._replace(blank=blank)
        return sentences

    def _sentences(self, text: str, is_line: bool = True) -> list[Sentence]:
        """Returns the sentences of a clean text, at least one.

        First, things become signs, which have no numbers yet. Then the line is
        split, and text in quotation marks is split again. Last, `_prepared`
        changes the case of each sentence, and numbers its signs. Outer marks
        are cut off twice: before quotation marks are cut off, and after that.
        """
        things: list[Thing] = []
        if self.placeholders is not None:
            text, things = self.placeholders.with_signs(text)
        # Of a line in capitals, words alone are in capitals, too.
        is_raised = self.usual_case and self._is_in_capitals(text)
        remaining = iter(things)
        parts: list[tuple[Sentence, list[Thing]]] = []
        for sentence, blank in self._split(text):
            before, inside, after, own = without_outer(
                sentence, _things_of(sentence, remaining)
            )
            opening, closing, inner = "", "", [(inside, "")]
            if self.usual_case:
                opening, inside, closing = case.without_quotation_marks(inside)
                # Sentences in the same quotation marks are not split yet.
                inner = self._split(inside) if opening else inner
            own_remaining = iter(own)
            last = len(inner) - 1
            for number, (one, inner_blank) in enumerate(inner):
                part = Sentence(
                    one,
                    before="" if number else before + opening,
                    after=closing + after if number == last else "",
                    blank=blank if number == last else inner_blank,
                )
                parts.append((part, _things_of(one, own_remaining)))
        return [
            self._prepared(
                part, own, is_raised, is_line=is_line and len(parts) == 1
            )
            for part, own in parts
        ]

    def _split(self, text: str) -> list[tuple[str, str]]:
        pairs = []
        if self.splits and self.language is not None:
            pairs = split_sentences(text, self.language)
        return pairs or [(text, "")]

    def _is_in_capitals(self, text: str) -> bool:
        return case.is_in_capitals(text, self.language, self.encode)

    def _prepared(
        self,
        part: Sentence,
        things: Sequence[Thing],
        is_raised: bool,
        is_line: bool,
    ) -> Sentence:
        """Returns a sentence as it is searched."""
        before, text, after, things = without_outer(part.text, things)
        part = part._replace(
            before=part.before + before,
            after=after + part.after,
            is_tidied=self.placeholders is not None,
        )
        has_rules = self.usual_case or self.placeholders is not None
        if not case.has_letter(text) and (has_rules or not is_line):
            kept = joined(Sentence(text).parts(), things)
            return part._replace(text=kept, is_kept=True)
        if self.usual_case:
            if is_raised or self._is_in_capitals(text):
                part = part._replace(raised_for=self.target_language or "")
                text = case.without_capitals(text, self.language, self.encode)
            else:
                usual = case.in_usual_case(text, self.language, self.encode)
                if case.begins_with_capital(text) > (
                    case.begins_with_capital(usual)
                ):
                    part = part._replace(
                        raised_for=self.target_language or "",
                        is_capitalized=True,
                    )
                text = usual
        part = part._replace(text=numbered(text), things=tuple(things))
        if self.placeholders is not None:
            part = part._replace(numbers=tuple(SMALL_NUMBER.findall(text)))
        return part


def _with_blanks_of(part: str, translation: str) -> str:
    """Returns a translation with the blanks that were around a part.

    And with those that its language may have, where words have none around
    them; `joined` takes away what does not belong there.
    """
    text = part.strip()
    start = part.index(text)
    before, after = part[:start], part[start + len(text) :]
    if UNSPACED.match(text[0]):
        before = before or " "
    if UNSPACED.match(text[-1]) or _WIDE_COMMA.match(text[-1]):
        after = after or " "
    return f"{before}{translation}{after}"


def _things_of(text: str, remaining: Iterator[Thing]) -> list[Thing]:
    """Returns the next things, one for each sign of a text."""
    return list(itertools.islice(remaining, num_signs(text)))


def _blocks(text: str) -> list[tuple[str, str]]:
    """Returns parts of a text, each with the line ends that follow it.

    Within a part, a sentence may continue in the next line.
    """
    blocks = []
    start = 0
    for ends in re.finditer("\n+", text):
        line_start = text.rfind("\n", 0, ends.start()) + 1
        if _ITEM_START.match(text, ends.end()) or _HEADING_START.match(
            text, line_start
        ):
            blocks.append((text[start : ends.start()], ends[0]))
            start = ends.end()
    return [*blocks, (text[start:], "")]


def line_of(sentences: Sequence[Sentence], texts: Sequence[str]) -> str:
    """Returns a line of the translations of its sentences."""
    followers = [*sentences[1:], None]
    return "".join(
        text_before(one, text) + text + text_after(one, text, follower)
        for one, text, follower in zip(sentences, texts, followers)
    )


def text_before(sentence: Sentence, translation: str) -> str:
    """Returns what stands before a translation in its line."""
    before = sentence.before
    if _is_unspaced(sentence.text[:1], translation[:1]) and _is_symbol(
        before[-1:], ".)\uff09\uff0e\u30fb"
    ):
        before += " "
    return before


def text_after(
    sentence: Sentence, translation: str, follower: Sentence | None
) -> str:
    """Returns what follows a translation in its line.

    Only some languages have blanks between sentences, and beside emoji.
    """
    blank, after = sentence.blank, sentence.after
    ends = sentence.text[-1:], translation[-1:]
    if after:
        if _is_unspaced(*ends) and _is_symbol(after[0], "("):
            after = f" {after}"
    elif follower is not None and "\n" not in blank:
        was_unspaced, is_unspaced = (
            bool(_UNSPACED_END.match(end) or UNSPACED.match(end))
            for end in ends
        )
        if was_unspaced != is_unspaced:
            blank = "" if is_unspaced or _closes(follower) else " "
    return after + blank


def _is_unspaced(source: str, translation: str) -> bool:
    """Returns whether only the translation has blanks around its words."""
    return not UNSPACED.match(translation) and bool(
        UNSPACED.match(source) or _UNSPACED_END.match(source)
    )


def _is_symbol(character: str, marks: str) -> bool:
    """Returns whether a character is one of the marks, or an emoji."""
    return character != "" and (
        character in marks or unicodedata.category(character) == "So"
    )


def _closes(sentence: Sentence) -> bool:
    """Returns whether a sentence begins with what belongs to the last one."""
    if sentence.is_kept:
        return not any(map(str.isalnum, sentence.text))
    return CLOSING.match(sentence.before) is not None
