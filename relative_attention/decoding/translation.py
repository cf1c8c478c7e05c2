"""What a search returns."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and its score.

    Attributes:
        text: The translation, detokenized. From `Translator.search` it is the
            text of `token_ids`. `Translator.translate_lines` restores that text
            by its rules.
        score: Its score in the beam search (see `beam_search`), or its
            log-probability if it was drawn (see `sample`); `0.0` for a text
            without a search. A line that was translated in parts has the sum
            of their scores.
        was_cut: Whether the source was longer than the limit and was cut.
        source_token_ids: Ids of the source, including its end; empty if the
            line was translated in parts.
        token_ids: Ids of the translation, including its end; empty if the
            line was translated in parts.
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
