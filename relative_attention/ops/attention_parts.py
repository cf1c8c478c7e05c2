"""What of attention is content and what is position, term by term."""

from typing import NamedTuple

from keras import ops

from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.precision import widened
from relative_attention.ops.relative_attention_inner import edge_product
from relative_attention.tensor_type import Tensor


class AttentionParts(NamedTuple):
    """The terms of eqs. 3 and 4 of Shaw et al. (2018), for looking at.

    What belongs to positions is zero where a layer has no relations, so that
    the sums below hold for every layer.

    Attributes:
        content_logits: float tensor `(B, N, T, S)`, `q_i k_j / sqrt(d_z)`,
            the first term of eq. 4.
        position_logits: float tensor `(B, N, T, S)`, `q_i a_ij^K /
            sqrt(d_z)`, the second. The sum of both is the logits, also where
            a mask hides them.
        scores: float tensor `(B, N, T, S)`, the softmax of the logits.
        value_context: float tensor `(B, N, T, H_v)`, `sum_j alpha_ij v_j`,
            the first term of eq. 3.
        relation_context: float tensor `(B, N, T, H_v)`, `sum_j alpha_ij
            a_ij^V`, the second. The sum of both is the output of each head,
            `z_i`.
        value_shares: float tensor `(B, N, T, S)`. How much of the output
            came through the value of each key: `alpha_ij v_j` along `z_i`, as
            a share of the length of `z_i`. A share is negative where a term
            points away from the output. In float32 at least.
        relation_shares: float tensor `(B, N, T, S)`, the same of `alpha_ij
            a_ij^V`. All shares of a query sum to 1, or to 0 if its output is
            zero.
        distance_logits: float tensor `(B, N, T, 2K + 1)`, what eq. 4 adds for
            each row of the relation table, be there a key at such a distance
            or not. `None` where keys have no relations.
    """

    content_logits: Tensor
    position_logits: Tensor
    scores: Tensor
    value_context: Tensor
    relation_context: Tensor
    value_shares: Tensor
    relation_shares: Tensor
    distance_logits: Tensor | None = None


def attention_parts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_relations: Tensor | None = None,
    value_relations: Tensor | None = None,
    mask: Tensor | None = None,
) -> AttentionParts:
    """Computes attention with the terms of its sums kept apart.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, S, H)`.
        value: float tensor `(B, N, S, H_v)`.
        key_relations: float tensor `(T, S, H)` or `(N, T, S, H)`, or `None`.
        value_relations: float tensor `(T, S, H_v)` or `(N, T, S, H_v)`, or
            `None`.
        mask: bool tensor of four axes that broadcasts to `(B, N, T, S)`;
            `True` = may attend. Defaults to `None`, every key.

    Returns:
        `AttentionParts`, `distance_logits` left out: tables are the layer's.

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 2-5
    """
    # Eq. 4, term by term: e_ij = q_i k_j + q_i a_ij^K
    content_logits = attention_logits(query, key)
    position_logits = _edges(query, key_relations, content_logits, True)
    scores = masked_softmax(content_logits + position_logits, mask)
    # Eq. 3, term by term: z_i = sum_j alpha_ij v_j + sum_j alpha_ij a_ij^V
    value_context = attention_context(scores, value)
    relation_context = _edges(scores, value_relations, value_context, False)
    context = value_context + relation_context
    # z_i (sum of its terms) = z_i z_i, so these shares of it sum to one. In
    # half precision the square of a short output would be lost.
    along = _over_square(widened(context))
    weights = widened(scores)
    value_shares = weights * attention_logits(along, widened(value))
    if value_relations is not None:
        value_relations = widened(value_relations)
    relation_shares = weights * _edges(
        along, value_relations, value_shares, True
    )
    return AttentionParts(
        content_logits,
        position_logits,
        scores,
        value_context,
        relation_context,
        value_shares,
        relation_shares,
    )


def _edges(
    x: Tensor, relations: Tensor | None, like: Tensor, transpose: bool
) -> Tensor:
    """Returns what edges add, zeros in the shape of `like` without any."""
    if relations is None:
        return ops.zeros_like(like)
    return edge_product(x, relations, transpose)


def _over_square(context: Tensor) -> Tensor:
    """Divides vectors by their squared length; what is zero stays zero."""
    square = ops.sum(ops.square(context), axis=-1, keepdims=True)
    is_zero = ops.equal(square, 0)
    divisor = ops.where(is_zero, ops.ones_like(square), square)
    return context / divisor
