"""What of a layer's attention is content and what is position.

These compute what the layers' calls do, with the terms of eqs. 3 and 4 of
Shaw et al. (2018) kept apart, which costs memory for every edge. They are for
looking at a sentence; dropout is off.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from relative_attention.layers.attention import CrossAttention
from relative_attention.layers.attention import SelfAttention
from relative_attention.layers.dense import project_to_heads
from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.backend import widened
from relative_attention.ops.masks import given_mask
from relative_attention.tensor_type import Tensor


class AttentionParts(NamedTuple):
    """The terms of eqs. 3 and 4 of Shaw et al. (2018), for looking at.

    What belongs to positions is zero where they add nothing, so that the sums
    below hold for every layer.

    Attributes:
        content_logits: float tensor `(B, N, T, S)`, `q_i k_j / sqrt(d_z)`,
            the first term of eq. 4. An encoding that rotates queries and keys
            has its positions in here.
        position_logits: float tensor `(B, N, T, S)`, `q_i a_ij^K /
            sqrt(d_z)`, the second, or the bias that an encoding adds instead.
            The sum of both is the logits, also where a mask hides them.
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
    """Computes the outputs of self-attention and the terms they consist of.

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
    encoding = layer.position_encoding
    parts = _parts(
        query,
        key,
        value,
        mask,
        encoding.logits(layer, query, positions, positions),
        lambda scores: encoding.context(layer, scores, positions, positions),
        lambda x: encoding.value_logits(layer, x, positions, positions),
    )
    table = layer.key_relation_embeddings
    if encoding.has_distance_tables and table is not None:
        # q_i w^K_r of every row r: (R, H) or (N, R, H), transposed.
        rows = ops.cast(table, query.dtype)
        by_distance = ops.matmul(query, ops.swapaxes(rows, -1, -2))
        parts = parts._replace(distance_logits=by_distance)
    return _merged(layer, parts), parts


def cross_attention_parts(
    layer: CrossAttention,
    inputs: Tensor,
    encoder_outputs: Tensor,
    padding_mask: Tensor | None = None,
) -> tuple[Tensor, AttentionParts]:
    """Computes the outputs of cross-attention and the terms they consist of.

    Source and target have no distance, so all of it is content.

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
    layer._check_source(inputs, encoder_outputs, padding_mask)
    (query,) = project_to_heads(inputs, [layer.query_dense])
    source = layer.project_source(encoder_outputs)
    mask = None
    if padding_mask is not None:
        mask = given_mask("padding_mask", padding_mask)[:, None, None, :]
    query = query * layer.key_dim**-0.5
    parts = _parts(query, source["key"], source["value"], mask)
    return _merged(layer, parts), parts


def _parts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    position_logits: Tensor | None = None,
    position_context: Callable[[Tensor], Tensor | None] = lambda scores: None,
    value_logits: Callable[[Tensor], Tensor | None] = lambda x: None,
) -> AttentionParts:
    """Computes attention with the terms of its sums kept apart.

    Args:
        query, key: float tensors `(B, N, T, H)` and `(B, N, S, H)`, scaled.
        value: float tensor `(B, N, S, H_v)`.
        mask: bool tensor that broadcasts to `(B, N, T, S)`, or `None`.
        position_logits: what positions add to the logits, or `None`.
        position_context: from scores, what they add to context vectors.
        value_logits: from vectors `(B, N, T, H_v)`, their products with what
            positions add to values.
    """
    # Eq. 4, term by term: e_ij = q_i k_j + q_i a_ij^K
    content_logits = attention_logits(query, key)
    zeros = ops.zeros_like(content_logits)
    if position_logits is None:
        position_logits = zeros
    # What is the same for all sentences may have an axis of one.
    position_logits = position_logits + zeros
    scores = masked_softmax(content_logits + position_logits, mask)
    # Eq. 3, term by term: z_i = sum_j alpha_ij v_j + sum_j alpha_ij a_ij^V
    value_context = attention_context(scores, value)
    relation_context = position_context(scores)
    if relation_context is None:
        relation_context = ops.zeros_like(value_context)
    # z_i (sum of its terms) = z_i z_i, so these shares of it sum to one. In
    # half precision the square of a short output would be lost.
    along = _over_square(widened(value_context + relation_context))
    weights = widened(scores)
    value_shares = weights * attention_logits(along, widened(value))
    relation_shares = value_logits(along)
    if relation_shares is None:
        relation_shares = ops.zeros_like(value_shares)
    return AttentionParts(
        content_logits,
        position_logits,
        scores,
        value_context,
        relation_context,
        value_shares,
        weights * relation_shares,
    )


def _over_square(context: Tensor) -> Tensor:
    """Divides vectors by their squared length; what is zero stays zero."""
    square = ops.sum(ops.square(context), axis=-1, keepdims=True)
    is_zero = ops.equal(square, 0)
    divisor = ops.where(is_zero, ops.ones_like(square), square)
    return context / divisor


def _merged(
    layer: CrossAttention | SelfAttention, parts: AttentionParts
) -> Tensor:
    return layer._merge_heads(parts.value_context + parts.relation_context)
