"""A translation, and how it is read from what a search found."""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import numpy as np
from keras import ops

from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.ensemble import named_weights
from relative_attention.decoding.model_steps import END_ID
from relative_attention.decoding.model_steps import start_token_id
from relative_attention.errors import InputError
from relative_attention.errors import NotFiniteError
from relative_attention.models.transformer import decoder_inputs
from relative_attention.models.weights import not_finite
from relative_attention.tensor_type import Tensor


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and how sure the model is of it.

    Attributes:
        text: The translation, detokenized.
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


class TextVocabulary(Protocol):
    """A vocabulary that turns lines of text into token ids, and back.

    `Vocabulary` is one; a translator takes any other.
    """

    end_id: int

    def encode(self, lines: list[str], /) -> Sequence[Sequence[int]]:
        """Returns the ids of each line, without an end of sentence."""

    def decode(self, token_ids: Any, /) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: int array `(B, T)`, padded with id 0.
        """


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
        vocabulary: `TextVocabulary` of the target.

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
            shown = None
            if attention is not None:
                # (L, N, T, S), without the padding of either side.
                shown = ops.convert_to_numpy(
                    attention[number, rank, :, :, : len(ids), : len(source_row)]
                )
            found.append(
                Translation(
                    text=_line(texts[number * num_results + rank]),
                    score=scores[number][rank],
                    was_cut=were_cut[number],
                    source_token_ids=tuple(source_row),
                    token_ids=ids,
                    attention=shown,
                )
            )
        translations.append(found)
    return translations


def _line(text: str) -> str:
    """Makes one line of UTF-8 of what a vocabulary wrote."""
    # Half a surrogate pair, which a vocabulary may hold, becomes U+FFFD.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # A translation is one line: its readers count lines.
    return text.replace("\n", " ")


def _until_end(token_ids: np.ndarray) -> tuple[int, ...]:
    """Takes the ids of a result without the padding behind its end."""
    ids = token_ids.tolist()
    if END_ID in ids:
        return tuple(ids[: ids.index(END_ID) + 1])
    # Cut at its limit, where others in the batch went on.
    while ids and ids[-1] == 0:
        ids.pop()
    return tuple(ids)


# === What the model tells of a search ===


def check_numbers(model: Any, numbers: Tensor) -> None:
    """Raises an error unless scores or log-probabilities are finite.

    A search would make empty lines of logits that are not.

    Raises:
        NotFiniteError: naming the weight that is not finite or, where all
            weights are, the dtype in which the logits are not.
    """
    if np.isfinite(ops.convert_to_numpy(numbers)).all():
        return
    for name, weight in named_weights(model):
        if not np.isfinite(ops.convert_to_numpy(weight)).all():
            raise NotFiniteError(not_finite(name))
    dtype = getattr(model, "compute_dtype", "the model's dtype")
    raise NotFiniteError(
        "The logits of the model must be finite. Received: nan or inf, of "
        f"weights that are finite; computed in {dtype} they overflow. Load "
        "the model in float32."
    )


def check_attention(model: Any) -> None:
    """Refuses a model that has no attention to show, before any work.

    Raises:
        InputError: if it has no `attention_scores`, as an `Ensemble`.
    """
    if not hasattr(model, "attention_scores"):
        raise InputError(
            "Attention is that of one `Transformer`. Received: "
            f"{type(model).__name__}. Of an `Ensemble`, ask one of its "
            "`models`."
        )


def alignment(
    model: Any, source_token_ids: Tensor, token_ids: Tensor
) -> Tensor:
    """Computes the cross-attention scores of translations that are known.

    Args:
        model: `Transformer`.
        source_token_ids: int tensor `(B, S)`.
        token_ids: int tensor `(B, R, T)`, what a search found.

    Returns:
        Float32 tensor `(B, R, L, N, T, S)`: by decoder block and head, what
        the model attended to when it chose each token.
    """
    # Sizes are told, not inferred: any of them may be 0.
    batch_size, num_results, length = ops.shape(token_ids)
    inputs = decoder_inputs(token_ids, start_token_id(model))
    scores = model.attention_scores(
        {
            "source_token_ids": ops.repeat(
                source_token_ids, num_results, axis=0
            ),
            "target_token_ids": ops.reshape(
                inputs, (batch_size * num_results, length)
            ),
        }
    )
    cross = ops.cast(ops.stack(scores["cross"], axis=1), "float32")
    return ops.reshape(cross, (batch_size, num_results, *cross.shape[1:]))
