"""What of a layer's attention is content and what is position.

These compute what the layers' calls do, with the terms of eqs. 3 and 4 of
Shaw et al. (2018) kept apart, which costs memory for every edge. They are for
looking at a sentence; dropout is off.
"""

from keras import ops

from relative_attention.layers.cross_attention import CrossAttention
from relative_attention.layers.head_projection import project_to_heads
from relative_attention.layers.relative_self_attention import (
    RelativeSelfAttention,
)
from relative_attention.ops.attention_parts import AttentionParts
from relative_attention.ops.attention_parts import attention_parts
from relative_attention.ops.given_mask import given_mask
from relative_attention.tensor_type import Tensor


def self_attention_parts(
    layer: RelativeSelfAttention,
    inputs: Tensor,
    attention_mask: Tensor | None = None,
    use_causal_mask: bool = False,
) -> tuple[Tensor, AttentionParts]:
    """Computes the outputs of self-attention and the terms they consist of.

    Args:
        layer: `RelativeSelfAttention`, built.
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
    query, key, value = layer._project(inputs)
    key_relations, value_relations = layer._edge_relations(
        layer._edges(ops.shape(inputs)[1]), query.dtype
    )
    parts = attention_parts(
        query,
        key,
        value,
        key_relations,
        value_relations,
        mask,
    )
    if layer.use_key_relations:
        # q_i w^K_r of every row r: (2K + 1, H) or (N, 2K + 1, H), transposed.
        rows = ops.cast(layer.key_relation_embeddings, query.dtype)
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
    parts = attention_parts(
        query * layer.key_dim**-0.5, source["key"], source["value"], mask=mask
    )
    return _merged(layer, parts), parts


def _merged(
    layer: CrossAttention | RelativeSelfAttention, parts: AttentionParts
) -> Tensor:
    return layer._merge_heads(parts.value_context + parts.relation_context)
