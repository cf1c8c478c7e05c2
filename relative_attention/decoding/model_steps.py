"""The steps of a model in a search, and the sentences they are for.

A search keeps results for all `B` sentences of a batch. The cache of the model
only has rows for the `A` active sentences, so a finished sentence costs
nothing. In a batch of four whose sentences 0 and 2 are done:

    is_done           = [True, False, True, False]
    active_sentences  = [1, 3]         the sentence of each row of the cache
    cache_row         = [0, 0, 0, 1]   the row of each sentence; any row for a
                                       sentence that is done
"""

from collections.abc import Iterator
from typing import Any
from typing import NamedTuple
from typing import Protocol

import keras
import numpy as np
from keras import ops

from relative_attention.decoding.compiled import change_if
from relative_attention.decoding.compiled import take_rows
from relative_attention.errors import NotFiniteError
from relative_attention.layers.cache import merged_cache
from relative_attention.models.transformer import decoder_inputs
from relative_attention.models.weights import not_finite
from relative_attention.models.weights import weight_name
from relative_attention.tensor_type import Tensor

# Every step copies the positions since the last merge; a merge copies all.
_MERGE_EVERY = 32


class StepModel(Protocol):
    """A model that decodes one position of many hypotheses at a time.

    `beam_search` and `sample` take any such model, such as `Transformer` and
    `Ensemble`. Optional attributes are used if present: `config`, against whose
    vocabulary sizes ids are checked, `start_token_id`, and `prepare_steps`,
    which returns an equivalent `StepModel` for the steps of one search.

    A cache is a structure of nested dicts, lists and tuples of tensors. The
    first axis of each tensor is that of the sentences.
    """

    def start_cache(self, source_token_ids: Tensor) -> Any:
        """Encodes the sources `(B, S)` and returns the cache."""

    def decode_step(
        self,
        token_ids: Tensor,
        cache: Any,
        position: Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Returns logits `(B, M, V)` and the cache, one position longer.

        Args:
            token_ids: int tensor `(B, M)`, the tokens at `position`.
            cache: what `start_cache` or the previous step returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, or `None`:
                `ancestors[b, m, p]` is the beam that wrote position `p` of
                the history of beam `m`.
        """


def prepared(model: StepModel) -> StepModel:
    """Returns the model for the steps of one search, prepared if possible."""
    prepare_steps = getattr(model, "prepare_steps", None)
    return model if prepare_steps is None else prepare_steps()


def start_token_id(model: Any) -> int:
    """Returns the id that decoder inputs start with, 0 by default."""
    return getattr(model, "start_token_id", 0)


# === The sentences that are not done ===


class ActiveSentences(NamedTuple):
    """The model's cache, and the sentences of its rows.

    Attributes:
        cache: nested structure of tensors `(A, ...)`, see `StepModel`.
        active_sentences: int tensor `(A,)`, the sentence of each row of the
            cache, in ascending order.
        cache_row: int tensor `(B,)`, the row of each sentence in the cache;
            any row for a sentence that has none.
    """

    cache: Any
    active_sentences: Tensor
    cache_row: Tensor

    def gather_active(self, values: Tensor) -> Tensor:
        """Takes the rows of active sentences: `(B, ...)` -> `(A, ...)`."""
        return take_rows(values, self.active_sentences)

    def scatter_to_batch(self, values: Tensor) -> Tensor:
        """Spreads `(A, ...)` to `(B, ...)`.

        Finished sentences get any values, which the caller must ignore. Each
        sentence gathers its row, which is cheaper than writing rows into zeros.
        """
        return take_rows(values, self.cache_row)


def start_active(model: StepModel, source_token_ids: Tensor) -> ActiveSentences:
    """Encodes the sources `(B, S)`; all sentences are active."""
    sentences = ops.arange(ops.shape(source_token_ids)[0], dtype="int32")
    cache = model.start_cache(source_token_ids)
    return ActiveSentences(cache, sentences, sentences)


def decode_active(
    model: StepModel,
    active: ActiveSentences,
    token_ids: Tensor,
    position: Tensor,
    ancestors: Tensor | None = None,
    merges: bool = True,
) -> tuple[Tensor, ActiveSentences]:
    """Runs one step of the model, for the active sentences only.

    Args:
        model: `StepModel`.
        active: `ActiveSentences`.
        token_ids: int tensor `(B, M)`, for every sentence.
        position: int scalar.
        ancestors: int tensor `(B, M, position + 1)`, or `None`.
        merges: bool. Whether the cache grows, and is merged from time to time.

    Returns:
        Pair of float32 logits `(A, M, V)` and `ActiveSentences`, whose cache is
        one position longer.
    """
    if ancestors is not None:
        ancestors = active.gather_active(ancestors)
    logits, cache = model.decode_step(
        active.gather_active(token_ids), active.cache, position, ancestors
    )
    if merges:
        is_due = ops.equal((position + 1) % _MERGE_EVERY, 0)
        cache = change_if(is_due, merged_cache, cache)
    return ops.cast(logits, "float32"), active._replace(cache=cache)


def drop_done(active: ActiveSentences, is_done: Tensor) -> ActiveSentences:
    """Frees the cache of finished sentences `(B,)` if they are many."""
    is_active = ops.logical_not(is_done)
    num_active = ops.sum(ops.cast(is_active, "int32"))

    def drop(active: ActiveSentences) -> ActiveSentences:
        active_sentences = ops.cast(ops.nonzero(is_active)[0], "int32")
        # The rows that stay, numbered as in the previous cache.
        rows = take_rows(active.cache_row, active_sentences)
        # The sums of [0, 1, 0, 1] are [0, 1, 1, 2]: the row after a sentence's
        # own.
        cache_row = ops.cumsum(ops.cast(is_active, "int32")) - 1
        return ActiveSentences(
            cache=keras.tree.map_structure(
                lambda tensor: take_rows(tensor, rows), active.cache
            ),
            active_sentences=active_sentences,
            cache_row=ops.cast(ops.maximum(cache_row, 0), "int32"),
        )

    # Dropping rows copies the cache, which pays for one row in eight.
    num_rows = ops.shape(active.active_sentences)[0]
    return change_if(8 * num_active <= 7 * num_rows, drop, active)


# === Attention and errors of a search ===


def cross_attention(
    model: Any, source_token_ids: Tensor, token_ids: Tensor
) -> Tensor:
    """Computes the cross-attention scores of given translations.

    Args:
        model: `Transformer`.
        source_token_ids: int tensor `(B, S)`.
        token_ids: int tensor `(B, R, T)`, the results of a search.

    Returns:
        Float32 tensor `(B, R, L, N, T, S)`: by decoder block and head, the
        scores when the model chose each token.
    """
    # Sizes are given, not inferred, as any of them may be 0.
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


def check_numbers(model: Any, numbers: Tensor) -> None:
    """Raises an error unless scores or log-probabilities are finite.

    From other logits a search would make empty lines.

    Raises:
        NotFiniteError: naming the weight that is not finite or, if all weights
            are finite, the dtype in which the logits are not.
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


def named_weights(model: Any) -> Iterator[tuple[str, keras.Variable]]:
    """Yields the weights of any `StepModel` that has some, with their names.

    Models of an ensemble have weights with the same names, so the number of the
    model is added.
    """
    members = getattr(model, "models", None)
    for number, member in enumerate(members or [model], start=1):
        suffix = f" of model {number}" if members else ""
        for weight in getattr(member, "weights", ()):
            yield weight_name(weight) + suffix, weight
