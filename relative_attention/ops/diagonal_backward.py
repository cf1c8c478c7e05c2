"""The gradient of attention along diagonals, for one block of queries.

Comments name the equations of `block_attention.py`.
"""

from keras import ops

from relative_attention.ops.block_dropout import KeepMasks
from relative_attention.ops.block_operands import transposed
from relative_attention.ops.control_dependency import run_after
from relative_attention.ops.diagonal_block import DiagonalBlock
from relative_attention.ops.diagonal_forward import Residuals
from relative_attention.ops.diagonal_operands import Operands
from relative_attention.ops.diagonal_operands import rows_gradient
from relative_attention.ops.diagonal_operands import sum_of_rows
from relative_attention.ops.precision import is_half
from relative_attention.ops.precision import widened
from relative_attention.tensor_type import Tensor


def block_gradients(
    block: DiagonalBlock,
    x: Operands,
    keep_mask: KeepMasks | None,
    residuals: Residuals,
    d_context: Tensor,
    previous: Tensor | None,
) -> Operands:
    """Computes what a block adds to the gradient of each operand.

    Args:
        block: the queries and keys.
        x: the operands of all blocks.
        keep_mask: which scores dropout kept, or `None` for all.
        residuals: what `attend` returned for the block.
        d_context: float tensor `(B, N, T, H_v)`: `dO` of all blocks.
        previous: tensor that is to be computed before, or `None`.

    Returns:
        The gradients; those of keys and values up to the block's last key.
    """
    d_context = run_after(block.queries(d_context), previous)
    if residuals.can_attend is not None:
        d_context = d_context * residuals.can_attend
    query, scores = block.queries(x.query), residuals.scores
    wide = _logit_gradients(block, x, keep_mask, residuals, d_context)  # dS
    d_logits = ops.cast(wide, query.dtype)
    kept = scores if keep_mask is None else keep_mask.drop(0, scores)
    # dq = dS k, dk = dS^T q, dv = Z^T dO; dr of sums by distance.
    d_query = ops.matmul(d_logits, block.keys(x.key))
    d_key_rows = d_value_rows = None
    if x.key_rows is not None:
        near, *ahead = block.sum_distances(wide)
        by_distance = ops.cast(
            ops.concatenate([*ahead, near], axis=2), query.dtype
        )
        d_query = d_query + sum_of_rows(by_distance, x.key_rows)
        d_key_rows = rows_gradient(by_distance, query, x.key_rows)
    if x.value_rows is not None:
        d_value_rows = rows_gradient(
            residuals.by_distance, d_context, x.value_rows
        )
    return Operands(
        query=d_query,
        key=ops.matmul(transposed(d_logits), query),
        value=ops.matmul(transposed(kept), d_context),
        key_rows=d_key_rows,
        value_rows=d_value_rows,
        has_ahead=x.has_ahead,
    )


def _logit_gradients(
    block: DiagonalBlock,
    x: Operands,
    keep_mask: KeepMasks | None,
    residuals: Residuals,
    d_context: Tensor,
) -> Tensor:
    """Computes `dS = P (dP - D)`, `(B, N, C, keys)`, in float32 at least."""
    # dP = dO (v + r); what keys ahead have in common is still to be added.
    values = block.keys(x.value)
    d_scores = widened(ops.matmul(d_context, transposed(values)))
    ahead, shared = None, 0.0
    if x.value_rows is not None:
        products = x.products(x.value_rows, d_context)
        near, ahead = block.near_and_ahead(products[:, :, :-1])
        d_scores = block.add_near(d_scores, near)
        # dO w^V_-K is in no `dP` so far.
        shared = ops.expand_dims(products[:, :, -1], -1)
    scores = widened(residuals.scores)
    if keep_mask is not None:
        # Dropout hides from `D` what is added; so all is added before.
        if x.value_rows is not None:
            more = shared if ahead is None else ahead + shared
            d_scores = block.add_ahead(d_scores, more)
        d_scores, ahead, shared = keep_mask.drop(0, d_scores), None, 0.0
    if is_half(d_context):
        row_term = _mean_gradient(block, scores, d_scores, ahead)
    else:
        # D = dO O, less what is in no `dP`.
        row_term = ops.sum(
            d_context * residuals.context, axis=-1, keepdims=True
        )
        row_term = row_term - shared
    less = -row_term if ahead is None else widened(ahead) - row_term
    return scores * block.add_ahead(d_scores, less)


def _mean_gradient(
    block: DiagonalBlock,
    scores: Tensor,
    d_scores: Tensor,
    ahead: Tensor | None,
) -> Tensor:
    """Computes `D` as the mean of `dP` by the scores, `(B, N, C, 1)`.

    In half precision `dO O` differs from it by what each was rounded, and what
    is then left of the sum of a row of `dS`, 0 by right, would weigh as much as
    all keys have in common.
    """
    weighted = ops.sum(scores * d_scores, axis=-1, keepdims=True)
    sums = block.sum_stretches(scores) if ahead is not None else scores
    if ahead is not None:
        weighted = weighted + ops.sum(
            sums * widened(ahead), axis=-1, keepdims=True
        )
    return weighted / ops.sum(sums, axis=-1, keepdims=True)
