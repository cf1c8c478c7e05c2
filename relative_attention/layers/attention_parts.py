"""Which part of a layer's attention is content and which is position.

These functions compute what the layers' calls do, and return the terms of eqs.
3 and 4 of Shaw et al. (2018) separately, which needs memory for every edge.
They are for looking at one sentence; dropout is off.
"""

from typing import NamedTuple

from keras import ops

from relative_attention.layers.attention import CrossAttention
from relative_attention.layers.attention import MultiHeadLayer
from relative_attention.layers.attention import SelfAttention
from relative_attention.ops.attention import plain_product
from relative_attention.ops.backend import widened
from relative_attention.tensor_type import Tensor


class AttentionParts(NamedTuple):
    """The terms of eqs. 3 and 4 of Shaw et al. (2018), to be shown.

    Position terms are zero if positions add nothing, so the sums below hold for
    every layer.

    Attributes:
        content_logits: float tensor `(B, N, T, S)`, `q_i k_j / sqrt(d_z)`,
            the first term of eq. 4. Includes the positions of an encoding that
            rotates queries and keys.
        position_logits: float tensor `(B, N, T, S)`, `q_i a_ij^K /
            sqrt(d_z)`, the second, or the bias that an encoding adds instead.
            The sum of both is the logits, before any mask.
        scores: float tensor `(B, N, T, S)`, the softmax of the logits.
        value_context: float tensor `(B, N, T, H_v)`, `sum_j alpha_ij v_j`,
            the first term of eq. 3.
        relation_context: float tensor `(B, N, T, H_v)`, `sum_j alpha_ij
            a_ij^V`, the second. The sum of both is the output of each head,
            `z_i`.
        value_shares: float tensor `(B, N, T, S)`. How much of the output
            came through the value of each key: `alpha_ij v_j` along `z_i`, as
            a share of the length of `z_i`. A share is negative if its term
            points away from the output. In float32 at least.
        relation_shares: float tensor `(B, N, T, S)`, the same for `alpha_ij
            a_ij^V`. All shares of a query sum to 1, or to 0 if its output is
            zero.
        distance_logits: float tensor `(B, N, T, 2K + 1)`, what eq. 4 adds for
            each row of the relation table, even if no key is at such a
            distance. `None` without a table of clipped distances.
    """

    content_logits: Tensor
    position_logits: Tensor
    scores: Tensor
    value_context: Tensor
    relation_context: Tensor
    value_shares: Tensor
    relation_shares: Tensor
    distance_logits: Tensor | None = None


def self_attention_parts(
    layer: SelfAttention,
    inputs: Tensor,
    attention_mask: Tensor | None = None,
    use_causal_mask: bool = False,
) -> tuple[Tensor, AttentionParts]:
    """Computes the outputs of self-attention and their terms.

    Args:
        layer: `SelfAttention`, built.
        inputs: float tensor `(B, T, D)`.
        attention_mask: bool tensor, broadcast to `(B, T, T)`, or with an axis
            of heads to `(B, N, T, T)`. `True` = may attend.
        use_causal_mask: A boolean to indicate whether a query attends only
            to its own and earlier positions. Defaults to `False`.

    Returns:
        Pair of outputs `(B, T, D)`, those of the layer, and `AttentionParts`
        with `S = T`.

    Raises:
        ValueError: if `attention_mask` does not broadcast.

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3 and 4
    """
    mask = layer._merge_masks(inputs, attention_mask, None, use_causal_mask)
    query, key, value, positions = layer._project(inputs)
    outputs, parts = _parts(layer, query, key, value, mask, positions)
    table = layer.key_relation_embeddings
    if layer.position_encoding.has_distance_tables and table is not None:
        # q_i w^K_r of every row r: (R, H) or (N, R, H), transposed.
        rows = ops.cast(table, query.dtype)
        by_distance = ops.matmul(query, ops.swapaxes(rows, -1, -2))
        parts = parts._replace(distance_logits=by_distance)
    return outputs, parts


def cross_attention_parts(
    layer: CrossAttention,
    inputs: Tensor,
    encoder_outputs: Tensor,
    padding_mask: Tensor | None = None,
) -> tuple[Tensor, AttentionParts]:
    """Computes the outputs of cross-attention and their terms.

    Source and target have no distance, so all terms are content.

    Args:
        layer: `CrossAttention`, built.
        inputs: float tensor `(B, T, D)`, the target side.
        encoder_outputs: float tensor `(B, S, D)`.
        padding_mask: bool tensor `(B, S)`. `True` = real token.

    Returns:
        Pair of outputs `(B, T, D)`, those of the layer, and `AttentionParts`.

    Raises:
        ValueError: if the source does not fit `inputs`.
    """
    mask = layer._merge_masks(inputs, encoder_outputs, padding_mask)
    source = layer.project_source(encoder_outputs)
    return _parts(layer, layer._queries(inputs), **source, mask=mask)


def _parts(
    layer: MultiHeadLayer,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    positions: Tensor | None = None,
) -> tuple[Tensor, AttentionParts]:
    """Computes outputs, and attention of scaled queries term by term."""
    terms = layer._attend(query, key, value, mask, positions)
    context = terms.context()
    outputs = layer._merge_heads(context)
    by_position, of_positions = terms.position_logits, terms.position_context
    # Terms that all sentences share may have a batch axis of one.
    zeros = ops.zeros_like(terms.content_logits)
    by_position = zeros if by_position is None else by_position + zeros
    if of_positions is None:
        of_positions = ops.zeros_like(terms.value_context)
    # z_i (sum of its terms) = z_i z_i, so the shares sum to one. In half
    # precision the square of a small output would be lost.
    context = widened(context)
    square = ops.sum(ops.square(context), axis=-1, keepdims=True)
    # All shares of a query that attends to nothing are zero.
    along = context / ops.where(square > 0, square, ops.ones_like(square))
    of_values = plain_product(along, widened(value), transpose=True)
    of_relations = layer.position_encoding.value_logits(
        layer, along, positions, positions
    )
    if of_relations is None:
        of_relations = ops.zeros_like(of_values)
    scores = widened(terms.scores)
    return outputs, AttentionParts(
        terms.content_logits,
        by_position,
        terms.scores,
        terms.value_context,
        of_positions,
        value_shares=scores * of_values,
        relation_shares=scores * of_relations,
    )
