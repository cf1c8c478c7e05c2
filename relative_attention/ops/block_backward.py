"""The gradient of attention for one block of queries.

Comments name the equations of `block_attention.py`. Where the scores are not
normalised, `p = P l`, the gradient of the context vectors is divided by `l`
once, so that every gradient below is one of `p`:

    dS = P (dP - D) = p (dP / l - D / l)
"""

from collections.abc import Mapping

from keras import ops

from relative_attention.ops.attention_block import Block
from relative_attention.ops.attention_block import Side
from relative_attention.ops.block_dropout import KeepMasks
from relative_attention.ops.block_forward import Residuals
from relative_attention.ops.block_operands import Operands
from relative_attention.ops.block_operands import added
from relative_attention.ops.block_operands import joined
from relative_attention.ops.block_operands import transposed
from relative_attention.ops.control_dependency import run_after
from relative_attention.ops.precision import widened
from relative_attention.ops.table_product import table_gradient
from relative_attention.ops.table_product import table_product
from relative_attention.tensor_type import Tensor


def block_gradients(
    block: Block,
    x: Operands,
    keep_masks: KeepMasks | None,
    residuals: Residuals,
    d_context: Tensor,
    previous: Tensor | None,
) -> Operands:
    """Computes what a block adds to the gradient of each operand.

    Args:
        block: the queries and keys.
        x: the operands of all blocks.
        keep_masks: which scores dropout keeps, or `None` for all.
        residuals: what `attend` returned for the block.
        d_context: float tensor `(B, N, T, H_v)`: `dO` of all blocks.
        previous: tensor that is to be computed before, or `None`.

    Returns:
        The gradients; those of keys and values have the positions from the
        first to the last that is near, those of `_right` the positions that
        are to the right. `None` for what the block has not.
    """
    d_context = run_after(block.queries(d_context), previous)
    query = block.queries(x.query)
    if residuals.inverse_total is not None:
        d_context = d_context * residuals.inverse_total
    d_scores = _score_gradients(block, x, keep_masks, d_context)  # dP
    row_term = _row_term(residuals, d_context, d_scores)  # D
    d_query: list[Tensor] = []
    d_keys: dict[Side, Tensor] = {}
    d_values: dict[Side, Tensor] = {}
    d_key_relations = d_value_relations = None
    for index, region in enumerate(block.regions()):
        scores = residuals.scores[index]
        # dS = P (dP - D), the gradient of a softmax.
        d_logits = ops.cast(
            widened(scores) * (d_scores[index] - row_term), query.dtype
        )
        # dq = dS k, dk = dS^T q, dv = Z^T dO.
        d_query.append(ops.matmul(d_logits, x.keys(region)))
        d_keys[region.side] = ops.matmul(transposed(d_logits), query)
        kept = scores if keep_masks is None else keep_masks.drop(index, scores)
        d_values[region.side] = ops.matmul(transposed(kept), d_context)
        if region.side == "near" and x.key_relations is not None:
            # The keys of a distance have one relation: their dS are summed,
            # then dq = dS r and dr = dS^T q as for keys.
            by_distance = block.to_distances(d_logits)
            d_query.append(table_product(by_distance, x.key_relations))
            d_key_relations = table_gradient(
                by_distance, query, x.key_relations.shape
            )
    if x.value_relations is not None:
        # dr = Z^T dO, where Z is summed by distance.
        d_value_relations = table_gradient(
            residuals.scores_by_distance, d_context, x.value_relations.shape
        )
    return Operands(
        query=added(d_query),
        key=_past(d_keys),
        value=_past(d_values),
        key_relations=d_key_relations,
        value_relations=d_value_relations,
        key_right=d_keys.get("right"),
        value_right=d_values.get("right"),
    )


def _score_gradients(
    block: Block, x: Operands, keep_masks: KeepMasks | None, d_context: Tensor
) -> list[Tensor]:
    """Computes `dP` of each region, `(B, N, C, keys)`, in float32 at least."""
    gradients = []
    for index, region in enumerate(block.regions()):
        # dZ = dO (v + r).
        d_scores = ops.matmul(d_context, transposed(x.values(region)))
        if region.side == "near" and x.value_relations is not None:
            relations = transposed(x.value_relations)
            d_scores = d_scores + block.to_keys(
                table_product(d_context, relations)
            )
        if keep_masks is not None:
            d_scores = keep_masks.drop(index, d_scores)
        gradients.append(widened(d_scores))
    return gradients


def _row_term(
    residuals: Residuals, d_context: Tensor, d_scores: list[Tensor]
) -> Tensor:
    """Computes `D_i = sum_j P_ij dP_ij`, `(B, N, C, 1)`.

    It is also `dO_i O_i`, a product over the context vectors alone (Dao et al.
    2022, appendix B.2). In half precision the two differ by what each was
    rounded, and what is then left of the sum of a row of `dS`, 0 by right,
    would weigh as much as all keys have in common. So there it is the mean of
    the same numbers that it is taken from, by the same weights.
    """
    if not residuals.is_normalized:
        return ops.sum(d_context * residuals.context, axis=-1, keepdims=True)
    scores = [widened(part) for part in residuals.scores]
    weighted = added(
        [
            ops.sum(part * gradient, axis=-1, keepdims=True)
            for part, gradient in zip(scores, d_scores)
        ]
    )
    total = added([ops.sum(part, axis=-1, keepdims=True) for part in scores])
    # Fully masked rows have no weight.
    return weighted / ops.where(total == 0, 1.0, total)


def _past(gradients: Mapping[Side, Tensor]) -> Tensor:
    """Joins the gradients of the keys from the first to the last near."""
    parts = (gradients.get("left"), gradients.get("near"))
    return joined([part for part in parts if part is not None])
