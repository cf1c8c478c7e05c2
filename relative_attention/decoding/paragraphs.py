"""Lines of text as the sentences that a model searches translations for.

A model is trained on sentences. `Paragraphs` makes sentences of lines, and
lines again of their translations:

    line          HELP ME! 🙂  "THE TRAIN IS LATE."
    searched      Help me!        The train is late.
    translations  Hilf mir!       Der Zug hat Verspätung.
    line          HILF MIR! 🙂 "DER ZUG HAT VERSPÄTUNG."
"""

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from relative_attention.text import Encode
from relative_attention.text import addresses_in
from relative_attention.text import clean_text
from relative_attention.text import has_letter
from relative_attention.text import is_in_capitals
from relative_attention.text import split_sentences
from relative_attention.text import with_addresses
from relative_attention.text import with_capitals
from relative_attention.text import with_usual_capitals
from relative_attention.text import without_capitals
from relative_attention.text import without_quotation_marks


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and its score.

    Attributes:
        text: The translation, detokenized.
        score: Its score in the beam search (see `beam_search`), or its
            log-probability if it was drawn (see `sample`); `0.0` for an empty
            line or one without a letter, for which there is no search. Of a
            line that was split, the sum over its sentences.
        was_cut: Whether the source was longer than the limit and was cut.
        source_token_ids: Ids of the source, including its end; empty if the
            line was split.
        token_ids: Ids of the translation, including its end; empty if the
            line was split.
        attention: `None`, or the cross-attention scores, float32
            `(L, N, T, S)`: by decoder block and head, from each of
            `token_ids` to each of `source_token_ids`. Not printed.
        alignment: `None`, or pairs of the numbers of a source word and of the
            word of the translation that comes from it, from 0. Words are parts
            of a text between blanks.
        sentences: The translations of the sentences of a line that was split,
            otherwise empty.
    """

    text: str
    score: float
    was_cut: bool
    source_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    attention: np.ndarray | None = dataclasses.field(
        default=None, compare=False, repr=False
    )
    alignment: tuple[tuple[int, int], ...] | None = None
    sentences: tuple["Translation", ...] = ()


class Part(NamedTuple):
    """A sentence of a line.

    Attributes:
        text: string. The sentence to search a translation for.
        before, after: string. What stands around it in the line: quotation
            marks, and what `split_sentences` returns.
        is_raised: bool. Whether it was in capitals, as its translation is to
            be.
        is_kept: bool. Whether it has no letter, and is its own translation.
        addresses: tuple of strings. The e-mail addresses, links and names of
            files of `text`, which its translation is to have, too.
        not_raised: tuple of strings. Those of the line, which stay as they were
            typed where all else is raised.
    """

    text: str
    before: str = ""
    after: str = ""
    is_raised: bool = False
    is_kept: bool = False
    addresses: tuple[str, ...] = ()
    not_raised: tuple[str, ...] = ()

    def finished(self, found: Translation) -> Translation:
        """Returns a translation of `text` as one of the sentence."""
        text = found.text
        # A text that was cut may have lost some.
        if not found.was_cut:
            text = with_addresses(text, self.addresses)
        if self.is_raised:
            text = with_capitals(text, self.not_raised)
        return dataclasses.replace(found, text=text)

    def within_line(self, found: Translation) -> Translation:
        """Returns a translation with what stands around the sentence."""
        text = f"{self.before}{found.text}{self.after}"
        return dataclasses.replace(found, text=text)


class Paragraphs:
    """Some lines as sentences, and their translations as lines.

    Args:
        lines: list of strings.
        language: string, the ISO 639 code of their language. `None` keeps the
            lines as they are.
        splits: bool. Whether to split lines into sentences.
        encode: the method of the vocabulary of their language.

    Attributes:
        parts: for each line the list of its `Part`s, at least one.
        sentences: list of strings, those to search translations for.
    """

    def __init__(
        self,
        lines: Iterable[str],
        language: str | None,
        splits: bool,
        encode: Encode,
    ) -> None:
        self.parts = [
            [Part(line)]
            if language is None
            else parts_of_line(line, language, splits, encode)
            for line in lines
        ]
        self.sentences = [
            part.text
            for parts in self.parts
            for part in parts
            if not part.is_kept
        ]

    def translations(
        self, found: Iterable[Sequence[Translation]]
    ) -> list[list[Translation]]:
        """Returns the translations of the lines.

        Args:
            found: the translations of each of `sentences`, best first.

        Returns:
            For each line a list of `Translation`, best first; one if the line
            has several sentences.
        """
        return list(map(_joined, self.parts, self.results(found)))

    def results(
        self, found: Iterable[Sequence[Translation]]
    ) -> list[list[list[Translation]]]:
        """Returns the translations of each part of each line, best first.

        Args:
            found: the translations of each of `sentences`, best first.
        """
        remaining = iter(found)
        return [
            [
                [Translation(part.text, 0.0, was_cut=False)]
                if part.is_kept
                else [*map(part.finished, next(remaining))]
                for part in parts
            ]
            for parts in self.parts
        ]


def parts_of_line(
    line: str, language: str, splits: bool, encode: Encode
) -> list[Part]:
    """Returns the sentences of a line, or the line as the only one."""
    is_raised = is_in_capitals(line)
    parts = []
    for before, sentence, after in _sentences(line, language, splits):
        part = Part(sentence, before, after)
        if has_letter(sentence):
            part = _searchable(part, is_raised, language, encode)
        else:
            part = part._replace(text=clean_text(sentence), is_kept=True)
        parts.append(part)
    return parts


def _searchable(
    part: Part, is_raised: bool, language: str, encode: Encode
) -> Part:
    """Returns a part with its text in the case that a model knows best."""
    text = part.text
    typed = addresses_in(text)
    is_raised |= is_in_capitals(text)
    if is_raised:
        text = without_capitals(text, language, encode)
    elif text.islower():
        text = with_usual_capitals(text, language, encode)
    return part._replace(
        text=text,
        is_raised=is_raised,
        addresses=tuple(addresses_in(text)),
        not_raised=tuple(typed),
    )


def _sentences(
    line: str, language: str, splits: bool
) -> Iterator[tuple[str, str, str]]:
    """Yields what is before each sentence of a line, it, and what is after."""

    def split(text: str) -> list[tuple[str, str]]:
        pairs = split_sentences(text, language) if splits else []
        return pairs or [(text, "")]

    for text, after in split(line):
        before, inside, behind = without_quotation_marks(text)
        # Sentences in the same quotation marks are not split yet.
        *others, (last, _) = split(inside) if before else [(text, "")]
        for sentence, blank in others:
            yield before, sentence, blank
            before = ""
        yield before, last, f"{behind}{after}"


def _joined(
    parts: Sequence[Part], results: Sequence[list[Translation]]
) -> list[Translation]:
    """Joins the best translation of each sentence of a line."""
    if len(parts) == 1:
        return [*map(parts[0].within_line, results[0])]
    best = [found[0] for found in results]
    return [
        Translation(
            "".join(
                part.within_line(one).text for part, one in zip(parts, best)
            ),
            sum(one.score for one in best),
            was_cut=any(one.was_cut for one in best),
            sentences=tuple(best),
        )
    ]
