"""What a translator gives for a sentence."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and how sure the model is of it.

    Attributes:
        text: The translation, detokenised.
        score: Its score in the beam search (see `beam_search`), or its
            log-probability where it was drawn (see `sample`); `0.0` for an
            empty sentence, which is not searched for.
        was_cut: Whether the source was longer than the limit and was cut.
        source_token_ids: Ids of the source, its end included.
        token_ids: Ids of the translation, its end included.
        attention: `None`, or the cross-attention scores, float32
            `(L, N, T, S)`: by decoder block and head, from each of
            `token_ids` to each of `source_token_ids`. Not printed.
    """

    text: str
    score: float
    was_cut: bool
    source_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    attention: np.ndarray | None = dataclasses.field(
        default=None, compare=False, repr=False
    )
