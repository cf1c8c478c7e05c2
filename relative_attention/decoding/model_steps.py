"""What a search asks of a model, and for which sentences.

A search keeps what it found for all `B` sentences of a batch. The cache of the
model has rows for the `A` active sentences alone, so that a sentence that is
done stops costing. Of a batch of four whose sentences 0 and 2 are done:

    is_done           = [True, False, True, False]
    active_sentences  = [1, 3]         the sentence of each row of the cache
    cache_row         = [0, 0, 0, 1]   the row of each sentence; any row for a
                                       sentence that is done
"""

from typing import Any
from typing import NamedTuple
from typing import Protocol

import keras
from keras import ops

from relative_attention.decoding.compiled import change_if
from relative_attention.decoding.compiled import take_rows
from relative_attention.tensor_type import Tensor

# The end of sentence, in every vocabulary of a target.
END_ID = 1
# Every step copies what came since the last merge, a merge copies all.
_MERGE_EVERY = 32


class StepModel(Protocol):
    """A model that decodes one position of many hypotheses at a time.

    `Transformer` and `Ensemble` are such; `beam_search` and `sample` take any
    other. A model may have more, which is used where it is there: `config`,
    whose vocabulary sizes ids are checked against, `start_token_id`, and
    `prepare_steps`, which returns a `StepModel` of the same numbers for the
    steps of one search.

    A cache is a structure of nested dicts, lists and tuples of tensors; the
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
        """Returns logits `(B, M, V)` and the cache, a position longer.

        Args:
            token_ids: int tensor `(B, M)`, the tokens at `position`.
            cache: what `start_cache`, `merge_cache` or the step before
                returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, or `None`:
                `ancestors[b, m, p]` is the beam that wrote position `p` of
                the history of beam `m`.
        """

    def merge_cache(self, cache: Any) -> Any:
        """Returns the cache with its recent positions joined to the others."""


def prepared(model: StepModel) -> StepModel:
    """Returns the model for the steps of one search, prepared if it can be."""
    prepare_steps = getattr(model, "prepare_steps", None)
    return model if prepare_steps is None else prepare_steps()


def start_token_id(model: Any) -> int:
    """Returns the id that decoder inputs start with, 0 unless it has one."""
    return getattr(model, "start_token_id", 0)


class ActiveSentences(NamedTuple):
    """The model's cache, and the sentences that it has rows for.

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
        """Spreads `(A, ...)` to `(B, ...)`, with anything for the others.

        Each sentence fetches its row, which is cheaper than to write rows
        into zeros. The caller keeps what the others had.
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
        model: `StepModel`.
        active: `ActiveSentences`.
        token_ids: int tensor `(B, M)`, for every sentence.
        position: int scalar.
        ancestors: int tensor `(B, M, position + 1)`, or `None`.
        merges: bool. Whether the cache grows, and is merged now and then.

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
    """Frees the cache of sentences that are done `(B,)`, when they are many."""
    is_active = ops.logical_not(is_done)
    num_active = ops.sum(ops.cast(is_active, "int32"))

    def drop(active: ActiveSentences) -> ActiveSentences:
        active_sentences = ops.cast(ops.nonzero(is_active)[0], "int32")
        # The rows that stay, numbered as in the cache before.
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
