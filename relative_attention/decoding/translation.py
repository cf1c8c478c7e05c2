"""A translation, and how it is read from what a search found."""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
from keras import ops

from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.start_and_end import END_ID
from relative_attention.decoding.text_vocabulary import TextVocabulary
from relative_attention.tensor_type import Tensor


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


def read_translations(
    results: Mapping[str, Tensor],
    source_rows: Sequence[tuple[int, ...]],
    were_cut: Sequence[bool],
    vocabulary: TextVocabulary,
) -> list[list[Translation]]:
    """Makes translations of what `beam_search` or `sample` found.

    Args:
        results: dict of what they return.
        source_rows: the ids of each source, its end included.
        were_cut: whether each source was cut.
        vocabulary: `Vocabulary` of the target.

    Returns:
        For each source a list of `Translation`, in the order of the results;
        there are fewer where fewer were found.
    """
    # NumPy alone refuses tensors of PyTorch that have a gradient.
    token_ids = ops.convert_to_numpy(results["token_ids"])
    scores = ops.convert_to_numpy(results["scores"]).tolist()
    attention = results.get("attention")
    batch_size, num_results, length = token_ids.shape
    texts = vocabulary.decode(
        token_ids.reshape(batch_size * num_results, length)
    )
    translations = []
    for number, source_row in enumerate(source_rows):
        found: list[Translation] = []
        for rank in range(num_results):
            # The first is a result whatever its score.
            if rank and scores[number][rank] < IMPOSSIBLE / 2:
                break
            ids = _until_end(token_ids[number, rank])
            # A translation is a line: whoever reads it counts lines.
            text = texts[number * num_results + rank].replace("\n", " ")
            found.append(
                Translation(
                    text=text,
                    score=scores[number][rank],
                    was_cut=were_cut[number],
                    source_token_ids=tuple(source_row),
                    token_ids=ids,
                    attention=_without_padding(
                        attention, number, rank, len(ids), len(source_row)
                    ),
                )
            )
        translations.append(found)
    return translations


def _without_padding(
    attention: Tensor | None,
    number: int,
    rank: int,
    length: int,
    source_length: int,
) -> np.ndarray | None:
    """Takes one result's scores `(L, N, T, S)` of `(B, R, L, N, T, S)`."""
    if attention is None:
        return None
    scores = attention[number, rank, :, :, :length, :source_length]
    return ops.convert_to_numpy(scores)


def _until_end(token_ids: np.ndarray) -> tuple[int, ...]:
    """Takes the ids of a result without the padding behind its end."""
    ids = token_ids.tolist()
    if END_ID in ids:
        return tuple(ids[: ids.index(END_ID) + 1])
    # Cut at its limit; others in the batch went on.
    while ids and ids[-1] == 0:
        ids.pop()
    return tuple(ids)
