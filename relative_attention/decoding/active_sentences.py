"""The sentences of a batch that a search is not done with.

A search keeps what it found for all `B` sentences of a batch; the cache of the
model has rows for the `A` active ones alone, so that a sentence that is done
stops costing. Of a batch of four whose sentences 0 and 2 are done:

    is_done           = [True, False, True, False]
    active_sentences  = [1, 3]         the sentence of each row of the cache
    cache_row         = [0, 0, 0, 1]   the row of each sentence; of one that
                                       is done, any row that there is
"""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from relative_attention.decoding.step_model import StepModel
from relative_attention.decoding.take_rows import take_rows
from relative_attention.decoding.while_loop import change_if
from relative_attention.tensor_type import Tensor

# Every step copies what came since the last merge, a merge copies all.
_MERGE_EVERY = 32


class ActiveSentences(NamedTuple):
    """The model's cache, and which sentences it is of.

    Attributes:
        cache: nested structure of tensors `(A, ...)`, see `StepModel`.
        active_sentences: int tensor `(A,)`, the sentence of each row of the
            cache, in ascending order.
        cache_row: int tensor `(B,)`, the row of each sentence in the cache.
            Where a sentence has none, it is the number of any row.
    """

    cache: Any
    active_sentences: Tensor
    cache_row: Tensor

    def gather_active(self, values: Tensor) -> Tensor:
        """Takes `(A, ...)`, the active sentences', from `(B, ...)`."""
        return take_rows(values, self.active_sentences)

    def scatter_to_batch(self, values: Tensor) -> Tensor:
        """Spreads `(A, ...)` to `(B, ...)`, with anything for the others.

        Each sentence fetches its row, which is cheaper than to write rows into
        zeros; whoever calls this keeps what the others had.
        """
        return take_rows(values, self.cache_row)


def start_active(model: StepModel, source_token_ids: Tensor) -> ActiveSentences:
    """Encodes the sources `(B, S)`; all sentences are active."""
    sentences = ops.arange(ops.shape(source_token_ids)[0], dtype="int32")
    return ActiveSentences(
        cache=model.start_cache(source_token_ids),
        active_sentences=sentences,
        cache_row=sentences,
    )


def decode_active(
    model: StepModel,
    active: ActiveSentences,
    token_ids: Tensor,
    position: Tensor,
    ancestors: Tensor | None = None,
    merges: bool = True,
) -> tuple[Tensor, ActiveSentences]:
    """Runs one step of the model, for the active sentences alone.

    Args:
        model: `Transformer`, or another `StepModel`.
        active: `ActiveSentences`.
        token_ids: int tensor `(B, M)`, of every sentence.
        position: int scalar.
        ancestors: int tensor `(B, M, position + 1)`, or `None`.
        merges: bool. Whether the cache grows, and is merged now and then.
            Defaults to `True`.

    Returns:
        Pair of float32 logits `(A, M, V)` and `ActiveSentences` whose cache is
        a position longer.
    """
    if ancestors is not None:
        ancestors = active.gather_active(ancestors)
    logits, cache = model.decode_step(
        active.gather_active(token_ids), active.cache, position, ancestors
    )
    if merges:
        is_due = ops.equal((position + 1) % _MERGE_EVERY, 0)
        cache = change_if(is_due, model.merge_cache, cache)
    return ops.cast(logits, "float32"), active._replace(cache=cache)


def drop_done(active: ActiveSentences, is_done: Tensor) -> ActiveSentences:
    """Frees the cache of sentences that are done, when they are many.

    Args:
        active: `ActiveSentences`.
        is_done: bool tensor `(B,)`.
    """
    is_active = ops.logical_not(is_done)
    num_active = ops.sum(ops.cast(is_active, "int32"))

    def drop(active: ActiveSentences) -> ActiveSentences:
        active_sentences = ops.cast(ops.nonzero(is_active)[0], "int32")
        # What stays of the cache, as rows of the cache before.
        rows = take_rows(active.cache_row, active_sentences)
        # [0, 1, 0, 1] sums up to [0, 1, 1, 2]: the row after a sentence's own.
        cache_row = ops.cumsum(ops.cast(is_active, "int32")) - 1
        return ActiveSentences(
            cache=keras.tree.map_structure(
                lambda tensor: take_rows(tensor, rows), active.cache
            ),
            active_sentences=active_sentences,
            cache_row=ops.cast(ops.maximum(cache_row, 0), "int32"),
        )

    # Dropping copies the cache; a row in eight is worth it.
    num_rows = ops.shape(active.active_sentences)[0]
    return change_if(8 * num_active <= 7 * num_rows, drop, active)
