"""Puts the weights of a `Transformer` into CTranslate2's variables.

A specification of CTranslate2 is a tree of Python objects whose attributes are
the arrays of its `model.bin`. Its matrices are `(outputs, inputs)`, the
transpose of Keras', and heads stand one after the other along one axis:

    here, D inputs                   there
    query_dense.kernel (D, N, H)     self_attention.linear[0], rows 0 to N * H
    key_dense.kernel (D, N, H)       the same matrix, rows N * H to 2 * N * H
    value_dense.kernel (D, N, H)     the same, the rest
    output_dense.kernel (N, H, D)    self_attention.linear[1], (D, N * H)

In cross-attention the query has `linear[0]` for itself, keys and values share
`linear[1]`, and the output is `linear[2]`. Every array is a copy, because
CTranslate2 quantises in place.
"""

import math
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
import numpy as np

from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.tensor_type import Tensor

# A matrix `(outputs, inputs)` and its bias, `None` without one.
_Linear: TypeAlias = tuple[np.ndarray, np.ndarray | None]


def transformer_spec(model: Transformer, num_positions: int) -> Any:
    """Returns CTranslate2's description of a model, with its weights.

    Args:
        model: `Transformer`. Its heads share their relation tables, and it
            has not both relative and absolute positions.
        num_positions: int. The least number of rows of a table of absolute
            positions.

    Returns:
        `ctranslate2.specs.TransformerSpec`, without vocabularies.
    """
    from ctranslate2.specs import transformer_spec as specs

    config = model.config
    head_dim = max(config.head_dim, config.value_dim or config.head_dim)
    arguments: dict[str, Any] = {
        "pre_norm": config.normalize_first,
        # Without relation tables CTranslate2 takes sinusoidal positions; what
        # has no positions at all gets a table of zeros.
        "relative_position": model.encoder_positions is None,
        "head_dim": (
            None
            if head_dim * config.num_heads == config.hidden_dim
            else head_dim
        ),
    }
    encoder = specs.TransformerEncoderSpec(
        config.num_encoder_layers, config.num_heads, **arguments
    )
    decoder = specs.TransformerDecoderSpec(
        config.num_decoder_layers,
        config.num_heads,
        # The attention it returns is the mean of the last layer's heads.
        alignment_heads=0,
        **arguments,
    )
    _set_embeddings(encoder, decoder, model)
    for side, name in ((encoder, "encoder"), (decoder, "decoder")):
        positions = getattr(model, f"{name}_positions")
        if positions is not None and not _is_built_in(config):
            side.position_encodings.encodings = _position_table(
                positions, num_positions, config
            )
        # Pre-norm alone has a last normalization, behind all the blocks.
        norm = getattr(model, f"{name}_norm")
        if norm is not None:
            _set_norm(side.layer_norm, norm)
        blocks: Sequence[Any] = getattr(model, f"{name}_blocks")
        for layer, block in zip(side.layer, blocks):
            _set_block(layer, block, head_dim)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    return spec


def _set_embeddings(encoder: Any, decoder: Any, model: Transformer) -> None:
    """Sets the embeddings of both sides, and the projection to logits."""
    source = _array(model.source_embedding.embeddings)
    target = _array(model.target_embedding.embeddings)
    # Padding embeds to zero, also as the first input of the decoder; as a
    # logit it has the row that it has. CTranslate2 could start from zero by
    # itself, but then zeroes all of a prefix when it looks for alternatives.
    source[0] = 0
    target[0] = 0
    if model.target_space_embedding is not None:
        # Every embedding is multiplied by sqrt(D), this one is not.
        scale = math.sqrt(model.config.hidden_dim)
        source += _array(model.target_space_embedding.embedding) / scale
    encoder.embeddings[0].weight = source
    decoder.embeddings.weight = target
    decoder.projection.weight = _array(model.output_embedding.embeddings)
    if model.output_bias is not None:
        decoder.projection.bias = _array(model.output_bias)


def _is_built_in(config: TransformerConfig) -> bool:
    """Returns whether CTranslate2 computes these positions by itself.

    It does for tensor2tensor's formula counted from 1, and for even sizes.
    """
    return (
        config.position_encoding == "sinusoidal"
        and config.first_position == 1
        and config.hidden_dim % 2 == 0
        and config.hidden_dim > 2
    )


def _position_table(
    positions: Any, num_positions: int, config: TransformerConfig
) -> np.ndarray:
    """Returns a row for each position, at least `num_positions` of them."""
    if config.position_encoding != "learned":
        numbers = np.arange(num_positions) + config.first_position
        return _array(positions.encode(numbers, config.hidden_dim))
    rows = _array(positions.embeddings)
    # Positions beyond the learned ones share the last row.
    num_missing = max(config.first_position + num_positions - len(rows), 0)
    rows = np.pad(rows, ((0, num_missing), (0, 0)), mode="edge")
    return rows[config.first_position :]


def _set_block(spec: Any, block: Any, head_dim: int) -> None:
    """Sets all of a layer of the encoder or of the decoder."""
    attention = block.self_attention
    query, key, value, output = _head_matrices(attention, head_dim)
    _set_linear(spec.self_attention.linear[0], query, key, value)
    _set_linear(spec.self_attention.linear[1], output)
    _set_scale(spec.self_attention, attention, head_dim)
    _set_norm(spec.self_attention.layer_norm, block.self_attention_norm)
    if hasattr(spec.self_attention, "relative_position_keys"):
        _set_relations(spec.self_attention, attention, head_dim)
    if hasattr(spec, "attention"):
        attention = block.cross_attention
        query, key, value, output = _head_matrices(attention, head_dim)
        _set_linear(spec.attention.linear[0], query)
        _set_linear(spec.attention.linear[1], key, value)
        _set_linear(spec.attention.linear[2], output)
        _set_scale(spec.attention, attention, head_dim)
        _set_norm(spec.attention.layer_norm, block.cross_attention_norm)
    feed_forward = block.feed_forward
    for linear, dense in (
        (spec.ffn.linear_0, feed_forward.intermediate_dense),
        (spec.ffn.linear_1, feed_forward.output_dense),
    ):
        _set_linear(linear, (_array(dense.kernel).T, _array(dense.bias)))
    _set_norm(spec.ffn.layer_norm, block.feed_forward_norm)


def _head_matrices(attention: Any, head_dim: int) -> list[_Linear]:
    """Returns matrix and bias of query, key, value and output.

    CTranslate2 has one size for all heads, of queries, keys and values.
    Smaller ones are filled up with zeros, which change no product.
    """
    pairs: list[_Linear] = []
    for dense in (
        attention.query_dense,
        attention.key_dense,
        attention.value_dense,
    ):
        kernel = _pad_last(_array(dense.kernel), head_dim)  # (D, N, H)
        bias = None
        if dense.bias is not None:
            bias = _pad_last(_array(dense.bias), head_dim).reshape(-1)
        pairs.append((kernel.reshape(len(kernel), -1).T, bias))
    dense = attention.output_dense
    kernel = np.moveaxis(_array(dense.kernel), -1, 0)  # (D, N, H_v)
    bias = None if dense.bias is None else _array(dense.bias)
    kernel = _pad_last(kernel, head_dim)
    return [*pairs, (kernel.reshape(len(kernel), -1), bias)]


def _set_relations(spec: Any, attention: Any, head_dim: int) -> None:
    """Sets the relation tables; row `r` is distance `r - K`, there as here."""
    from ctranslate2.specs.model_spec import OPTIONAL

    keys = attention.key_relation_embeddings
    values = attention.value_relation_embeddings
    spec.relative_position_values = OPTIONAL
    if values is not None:
        spec.relative_position_values = _relation_table(values, head_dim)
    if keys is not None:
        spec.relative_position_keys = _relation_table(keys, head_dim)
    else:
        # Keys tell CTranslate2 that there are relative positions, and how
        # many. Zeros add nothing to the logits.
        num_relations = 1 if values is None else values.shape[-2]
        spec.relative_position_keys = np.zeros(
            (num_relations, head_dim), "float32"
        )


def _relation_table(embeddings: Tensor, head_dim: int) -> np.ndarray:
    """Returns the table `(2K + 1, H)` that all heads share."""
    table = _array(embeddings)
    return _pad_last(table[0] if table.ndim == 3 else table, head_dim)


def _set_scale(spec: Any, attention: Any, head_dim: int) -> None:
    """Sets what queries are multiplied by, where it is not `head_dim^-0.5`."""
    if head_dim != attention.key_dim:
        spec.queries_scale = np.float32(attention.key_dim**-0.5)


def _set_linear(spec: Any, *pairs: _Linear) -> None:
    """Stacks matrices, and biases where they have them, in this order."""
    spec.weight = np.concatenate([weight for weight, _ in pairs])
    biases = [bias for _, bias in pairs if bias is not None]
    if biases:
        spec.bias = np.concatenate(biases)


def _set_norm(spec: Any, layer: Any) -> None:
    """Sets scale and offset of a layer normalization."""
    spec.gamma = _array(layer.gamma)
    spec.beta = _array(layer.beta)


def _pad_last(array: np.ndarray, size: int) -> np.ndarray:
    """Fills the last axis up with zeros to `size`."""
    widths = [(0, 0)] * (array.ndim - 1) + [(0, size - array.shape[-1])]
    return np.pad(array, widths)


def _array(weight: Tensor) -> np.ndarray:
    """Returns a copy of a weight as a float32 array."""
    return np.array(keras.ops.convert_to_numpy(weight), "float32")
