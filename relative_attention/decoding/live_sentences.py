"""The sentences of a batch that a model still has to work for.

A search keeps what it found for every sentence of the batch; the model's
cache has rows only for those that are not done, so that a finished sentence
stops costing.
"""

import keras
from keras import ops

from relative_attention.decoding.take_rows import take_rows
from relative_attention.decoding.while_loop import change_if

# Every step copies what came since the last merge, a merge copies all.
_MERGE_EVERY = 32


def start_live(model, source_token_ids):
    """All sentences, alive.

    Returns:
        Dict of `"cache"`, the model's; `"rows"` `(A,)`, the sentence of each
        row of the cache; and `"slots"` `(B,)`, the row of each sentence, any
        for those that have none.
    """
    rows = ops.arange(ops.shape(source_token_ids)[0], dtype="int32")
    return {
        "cache": model.start_cache(source_token_ids),
        "rows": rows,
        "slots": rows,
    }


def decode_live(model, live, token_ids, position, ancestors=None):
    """One step of the model, for the sentences alive.

    Args:
        model: `Transformer`, or anything with its `start_cache`,
            `decode_step` and `merge_cache`.
        live: dict, see `start_live`.
        token_ids: int tensor `(B, M)`, of every sentence.
        position: int scalar.
        ancestors: int tensor `(B, M, position + 1)`, or `None`.

    Returns:
        Pair of float32 logits `(A, M, V)` and the dict, a position further.
    """
    if ancestors is not None:
        ancestors = of_live(live, ancestors)
    logits, cache = model.decode_step(
        of_live(live, token_ids), live["cache"], position, ancestors
    )
    cache = change_if(
        ops.equal((position + 1) % _MERGE_EVERY, 0), model.merge_cache, cache
    )
    return ops.cast(logits, "float32"), {**live, "cache": cache}


def of_live(live, values):
    """`(B, ...)` of every sentence -> `(A, ...)` of those alive."""
    return take_rows(values, live["rows"])


def of_all(live, values):
    """`(A, ...)` of those alive -> `(B, ...)`, anything for the others."""
    return take_rows(values, live["slots"])


def drop_done(live, is_done):
    """Free the rows of sentences that are done, when they are many.

    Args:
        live: dict, see `start_live`.
        is_done: bool tensor `(B,)`.
    """
    is_alive = ops.logical_not(is_done)
    num_alive = ops.sum(ops.cast(is_alive, "int32"))

    def drop(live):
        rows = ops.cast(ops.nonzero(is_alive)[0], "int32")
        kept = take_rows(live["slots"], rows)
        slots = ops.cumsum(ops.cast(is_alive, "int32")) - 1
        return {
            "cache": keras.tree.map_structure(
                lambda tensor: take_rows(tensor, kept), live["cache"]
            ),
            "rows": rows,
            "slots": ops.cast(ops.maximum(slots, 0), "int32"),
        }

    # Dropping copies the cache; a row in eight is worth it.
    return change_if(
        8 * num_alive <= 7 * ops.shape(live["rows"])[0], drop, live
    )
