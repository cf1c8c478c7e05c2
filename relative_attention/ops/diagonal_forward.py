"""The forward pass of attention along diagonals, for one block of queries.

Comments name the equations of `block_attention.py`.
"""

from typing import NamedTuple

from keras import ops

from relative_attention.ops.attention_mask import AttentionMask
from relative_attention.ops.block_dropout import KeepMasks
from relative_attention.ops.block_operands import transposed
from relative_attention.ops.control_dependency import run_after
from relative_attention.ops.diagonal_block import DiagonalBlock
from relative_attention.ops.diagonal_operands import Operands
from relative_attention.ops.diagonal_operands import sum_of_rows
from relative_attention.ops.masks import hide_masked
from relative_attention.ops.precision import widened
from relative_attention.tensor_type import Tensor


class Residuals(NamedTuple):
    """What the forward pass of a block leaves for its gradient.

    Attributes:
        scores: float tensor `(B, N, C, keys)`: `P_ij`, before dropout.
        by_distance: float tensor `(B, N, rows, C)`: the scores after dropout,
            summed by distance; `None` where values have no relations.
        context: float tensor `(B, N, C, H_v)`: `O_i`.
        can_attend: float tensor, broadcast to `(B, N, C, 1)`: 0 for a query
            that may attend to nothing, else 1; or `None` for 1.
    """

    scores: Tensor
    by_distance: Tensor | None
    context: Tensor
    can_attend: Tensor | None


def attend(
    block: DiagonalBlock,
    x: Operands,
    mask: AttentionMask | None,
    keep_mask: KeepMasks | None,
    previous: Tensor | None,
) -> Residuals:
    """Computes the context vectors of a block of queries.

    Args:
        block: the queries and keys.
        x: the operands of all blocks.
        mask: which keys each query may attend to, or `None` for all.
        keep_mask: which scores dropout keeps, or `None` for all.
        previous: tensor that is to be computed before, or `None`.

    Returns:
        The context vectors, and what `block_gradients` needs besides.
    """
    query = run_after(block.queries(x.query), previous)
    logits = _logits(block, x, query)
    can_attend = None
    if mask is not None:
        part = mask.part(block.start, block.stop, 0, block.end)
        if part is not None:
            logits = hide_masked(logits, part)
            can_attend = ops.any(part, axis=-1, keepdims=True)
            can_attend = ops.cast(can_attend, query.dtype)
    scores = ops.softmax(logits, axis=-1)  # P_ij
    kept = scores if keep_mask is None else keep_mask.drop(0, scores)  # Z_ij
    values = block.keys(x.value)
    context = ops.matmul(ops.cast(kept, query.dtype), values)  # eq. 3
    by_distance = None
    if x.value_rows is not None:
        near, *ahead = block.sum_distances(kept)
        # What scores sum to belongs to the last row, `w^V_-K`.
        total = ops.ones_like(near[:, :, :1])
        if keep_mask is not None:
            total = ops.expand_dims(ops.sum(kept, axis=-1), 2)
        by_distance = ops.concatenate([*ahead, near, total], axis=2)
        by_distance = ops.cast(by_distance, query.dtype)
        context = context + sum_of_rows(by_distance, x.value_rows)
    if can_attend is not None:
        # Without this a fully masked row would attend to every key alike.
        context = context * can_attend
    scores = ops.cast(scores, query.dtype)
    return Residuals(scores, by_distance, context, can_attend)


def _logits(block: DiagonalBlock, x: Operands, query: Tensor) -> Tensor:
    """Computes the logits `S_ij - q_i w^K_-K`, in float32 at least."""
    logits = widened(ops.matmul(query, transposed(block.keys(x.key))))
    if x.key_rows is None:
        return logits
    near, ahead = block.near_and_ahead(x.products(x.key_rows, query))
    logits = block.add_near(logits, near)
    return logits if ahead is None else block.add_ahead(logits, ahead)
