"""The forward pass of attention for one block of queries.

Comments name the equations of `block_attention.py`.
"""

from typing import NamedTuple

from keras import ops

from relative_attention.ops.attention_block import Block
from relative_attention.ops.attention_block import Region
from relative_attention.ops.attention_mask import AttentionMask
from relative_attention.ops.block_dropout import KeepMasks
from relative_attention.ops.block_operands import Operands
from relative_attention.ops.block_operands import added
from relative_attention.ops.block_operands import transposed
from relative_attention.ops.control_dependency import run_after
from relative_attention.ops.masks import MASKED_LOGIT
from relative_attention.ops.masks import hide_masked
from relative_attention.ops.precision import is_half
from relative_attention.ops.precision import widened
from relative_attention.ops.table_product import table_product
from relative_attention.tensor_type import Tensor


class Residuals(NamedTuple):
    """What the forward pass of a block leaves for its gradient.

    Attributes:
        scores: list of tensors `(B, N, C, keys)`, one for each region, before
            dropout: `p_ij = exp(S_ij - m_i)`, or `P_ij` in half precision.
        inverse_total: float tensor `(B, N, C, 1)`: `1 / l_i`, which turns `p`
            into `P`; `None` where the scores are `P`.
        scores_by_distance: float tensor `(B, N, C, 2K + 1)`: the scores near
            the block after dropout, summed by distance; `None` where values
            have no relations.
        context: float tensor `(B, N, C, H_v)`: `O_i`.
    """

    scores: list[Tensor]
    inverse_total: Tensor | None
    scores_by_distance: Tensor | None
    context: Tensor

    @property
    def is_normalized(self) -> bool:
        """Whether the scores of a row sum to one."""
        return self.inverse_total is None


def attend(
    block: Block,
    x: Operands,
    mask: AttentionMask | None,
    keep_masks: KeepMasks | None,
    previous: Tensor | None,
) -> tuple[Tensor, Residuals]:
    """Computes the context vectors of a block of queries.

    Args:
        block: the queries and keys.
        x: the operands of all blocks.
        mask: which keys each query may attend to, or `None` for all.
        keep_masks: which scores dropout keeps, or `None` for all.
        previous: tensor that is to be computed before, or `None`.

    Returns:
        Pair of context vectors `(B, N, C, H_v)` and what `block_gradients`
        needs.
    """
    query = run_after(block.queries(x.query), previous)
    regions = block.regions()
    logits = [_logits(block, region, x, query, mask) for region in regions]
    largest = _largest(logits)  # m_i
    scores = [ops.exp(part - largest) for part in logits]  # p_ij
    total = added([ops.sum(part, axis=-1, keepdims=True) for part in scores])
    inverse_total = 1 / total  # 1 / l_i
    if mask is not None:
        # Without this a fully masked row would attend to every key alike.
        inverse_total = ops.where(
            largest > MASKED_LOGIT / 2, inverse_total, 0.0
        )
    if is_half(query):
        # P = p / l, as a sum of many p may be beyond the largest float16.
        scores = [part * inverse_total for part in scores]
        inverse_total = None
    scores = [ops.cast(part, query.dtype) for part in scores]
    # Eq. 3: the values of each region, then the relations, by distance.
    contexts, scores_by_distance = [], None
    for index, region in enumerate(regions):
        kept = _kept(scores[index], keep_masks, index)  # Z_ij
        contexts.append(ops.matmul(kept, x.values(region)))
        if region.side == "near" and x.value_relations is not None:
            scores_by_distance = block.to_distances(kept)
    if scores_by_distance is not None:
        contexts.append(table_product(scores_by_distance, x.value_relations))
    context = added(contexts)
    if inverse_total is not None:
        # `H_v` numbers a row are divided by `l`, and not one for every key.
        context = context * inverse_total
    return context, Residuals(
        scores, inverse_total, scores_by_distance, context
    )


def _logits(
    block: Block,
    region: Region,
    x: Operands,
    query: Tensor,
    mask: AttentionMask | None,
) -> Tensor:
    """Computes the logits of a region (eq. 5), masked, in float32 at least.

    They are `S_ij - q_i w^K_-K`, which has the softmax of `S`.
    """
    logits = ops.matmul(query, transposed(x.keys(region)))
    if region.side == "near" and x.key_relations is not None:
        # Each query meets each of the `2K + 1` embeddings once.
        by_distance = table_product(query, transposed(x.key_relations))
        logits = logits + block.to_keys(by_distance)
    logits = widened(logits)
    if mask is None:
        return logits
    part = mask.part(block.start, block.stop, region.start, region.stop)
    return logits if part is None else hide_masked(logits, part)


def _largest(logits: list[Tensor]) -> Tensor:
    """Returns the largest logit of each row over all regions."""
    # `initial` for sequences without tokens, which Keras refuses otherwise.
    maxima = [
        ops.max(part, axis=-1, keepdims=True, initial=2 * MASKED_LOGIT)
        for part in logits
    ]
    largest = maxima[0]
    for maximum in maxima[1:]:
        largest = ops.maximum(largest, maximum)
    return largest


def _kept(scores: Tensor, keep_masks: KeepMasks | None, index: int) -> Tensor:
    return scores if keep_masks is None else keep_masks.drop(index, scores)
