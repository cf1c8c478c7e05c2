"""Weights of a `Transformer` as the variables of CTranslate2's.

CTranslate2's matrices are `(outputs, inputs)`, the transpose of Keras', and
their heads stand one after the other. Every array is a copy: CTranslate2
quantises in place.
"""

import math

import keras
import numpy as np


def transformer_spec(model, num_positions):
    """CTranslate2's description of a model, with its weights.

    Args:
        model: `Transformer`. Its heads share their relation tables, and it
            has not both relative and absolute positions.
        num_positions: int. Least rows of a table of absolute positions.

    Returns:
        `ctranslate2.specs.TransformerSpec`, without vocabularies.
    """
    from ctranslate2.specs import transformer_spec as specs

    config = model.config
    head_dim = max(config.head_dim, config.value_dim or config.head_dim)
    arguments = {
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
        # What attention it returns: the mean of the last layer's heads.
        alignment_heads=0,
        **arguments,
    )
    _set_embeddings(encoder, decoder, model)
    for spec, blocks, positions, norm in (
        (
            encoder,
            model.encoder_blocks,
            model.encoder_positions,
            model.encoder_norm,
        ),
        (
            decoder,
            model.decoder_blocks,
            model.decoder_positions,
            model.decoder_norm,
        ),
    ):
        if positions is not None and not _is_built_in(config):
            spec.position_encodings.encodings = _position_table(
                positions, num_positions, config
            )
        if norm is not None:
            _set_norm(spec.layer_norm, norm)
        for layer, block in zip(spec.layer, blocks):
            _set_block(layer, block, head_dim)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    return spec


def _set_embeddings(encoder, decoder, model):
    source = _array(model.source_embedding.embeddings)
    target = _array(model.target_embedding.embeddings)
    # Padding embeds to zero, also as the first input of the decoder; as a
    # logit it has the row that it has. CTranslate2 could start from zero by
    # itself, but then zeroes all of a prefix when it looks for alternatives.
    source[0] = 0
    target[0] = 0
    if model.target_space_embedding is not None:
        # It is added to what is scaled.
        scale = math.sqrt(model.config.hidden_dim)
        source += _array(model.target_space_embedding.embedding) / scale
    encoder.embeddings[0].weight = source
    decoder.embeddings.weight = target
    decoder.projection.weight = _array(model.output_embedding.embeddings)
    if model.output_bias is not None:
        decoder.projection.bias = _array(model.output_bias)


def _is_built_in(config):
    """Whether these are the positions that CTranslate2 computes itself.

    They are tensor2tensor's formula, but from 1 on, and for even sizes.
    """
    return (
        config.position_encoding == "sinusoidal"
        and config.first_position == 1
        and config.hidden_dim % 2 == 0
        and config.hidden_dim > 2
    )


def _position_table(positions, num_positions, config):
    """Rows of the first tokens, at least `num_positions` of them."""
    if config.position_encoding != "learned":
        numbers = np.arange(num_positions) + config.first_position
        return _array(positions.encode(numbers, config.hidden_dim))
    rows = _array(positions.embeddings)
    # What lies beyond shares the last one.
    num_missing = max(config.first_position + num_positions - len(rows), 0)
    rows = np.pad(rows, ((0, num_missing), (0, 0)), mode="edge")
    return rows[config.first_position :]


def _set_block(spec, block, head_dim):
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


def _head_matrices(attention, head_dim):
    """Pairs of matrix and bias of query, key, value and output.

    CTranslate2 has one size for all heads, of queries, keys and values. What
    is smaller is filled up with zeros, which change no product.
    """
    pairs = []
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
    return *pairs, (kernel.reshape(len(kernel), -1), bias)


def _set_relations(spec, attention, head_dim):
    """Row `r` belongs to the distance `r - K`, there as here."""
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


def _relation_table(embeddings, head_dim):
    table = _array(embeddings)
    return _pad_last(table[0] if table.ndim == 3 else table, head_dim)


def _set_scale(spec, attention, head_dim):
    if head_dim != attention.key_dim:
        spec.queries_scale = np.float32(attention.key_dim**-0.5)


def _set_linear(spec, *pairs):
    """Stack matrices and biases, `None` where there is none, in this order."""
    spec.weight = np.concatenate([weight for weight, _ in pairs])
    biases = [bias for _, bias in pairs]
    if biases[0] is not None:
        spec.bias = np.concatenate(biases)


def _set_norm(spec, layer):
    spec.gamma = _array(layer.gamma)
    spec.beta = _array(layer.beta)


def _pad_last(array, size):
    """Zeros behind the last axis, up to `size`."""
    widths = [(0, 0)] * (array.ndim - 1) + [(0, size - array.shape[-1])]
    return np.pad(array, widths)


def _array(weight):
    """A copy, float32."""
    return np.array(keras.ops.convert_to_numpy(weight), "float32")
