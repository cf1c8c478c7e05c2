"""Where and how OpenNMT-tf stores each weight of a `Transformer`."""

import collections.abc
import dataclasses
import math
import typing

import numpy as np

SOURCE_EMBEDDING = "model/examples_inputter/features_inputter/embedding"
TARGET_EMBEDDING = "model/examples_inputter/labels_inputter/embedding"
OUTPUT_KERNEL = "model/decoder/output_layer/kernel"
OUTPUT_BIAS = "model/decoder/output_layer/bias"


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight and how it is stored.

    Attributes:
        variable: The Keras variable.
        shape: The shape of the stored array.
        convert: Makes the variable's array of the stored one.
    """

    variable: typing.Any
    shape: tuple[int, ...]
    convert: collections.abc.Callable[[np.ndarray], np.ndarray]


def stored_weights(model):
    """Every weight of a model by its path in OpenNMT-tf.

    Args:
        model: `Transformer`.

    Returns:
        Dict of path -> `StoredWeight`. Weights that are shared have the path
        of the first alone.
    """
    first = model.config.normalize_first
    norm_name = "input_layer_norm" if first else "output_layer_norm"
    weights = _embeddings(model)
    for side in ("encoder", "decoder"):
        for index, block in enumerate(getattr(model, f"{side}_blocks")):
            weights |= _block(f"model/{side}/layers/{index}", block, norm_name)
        norm = getattr(model, f"{side}_norm")
        if norm is not None:
            weights |= _norm(f"model/{side}/layer_norm", norm)
        positions = getattr(model, f"{side}_positions")
        if model.config.position_encoding == "learned":
            weights[position_table(side)] = _positions(positions.embeddings)
    return weights


def position_table(side):
    """The path of the learned positions of `"encoder"` or `"decoder"`."""
    return f"model/{side}/position_encoder/position_embedding"


def _embeddings(model):
    sharing = model.config.share_embeddings
    weights = {SOURCE_EMBEDDING: _rows(model.source_embedding.embeddings)}
    if sharing in ("target", "none"):
        weights[TARGET_EMBEDDING] = _rows(model.target_embedding.embeddings)
    if sharing in ("source_target", "none"):
        weights[OUTPUT_KERNEL] = _columns(model.output_embedding.embeddings)
    if model.output_bias is not None:
        weights[OUTPUT_BIAS] = _rows(model.output_bias)
    return weights


def _rows(variable):
    """What has a row, or an element, for each id."""
    return StoredWeight(variable, tuple(variable.shape), _by_our_ids)


def _columns(variable):
    """The same as the kernel of a dense layer, which has columns."""
    return StoredWeight(
        variable,
        tuple(variable.shape)[::-1],
        lambda kernel: _by_our_ids(kernel.T),
    )


def _by_our_ids(rows):
    # OpenNMT-tf has `<blank>` 0, `<s>` 1 and `</s>` 2; here the end of
    # sentence is 1, and the start becomes 2. What follows keeps its place.
    return rows[[0, 2, 1, *range(3, len(rows))]]


def _positions(variable):
    # OpenNMT-tf counts positions from 1 and never reads its first row.
    length, hidden_dim = variable.shape
    return StoredWeight(
        variable, (length + 1, hidden_dim), lambda table: table[1:]
    )


def _block(path, block, norm_name):
    dense = block.feed_forward
    weights = {
        **_attention(f"{path}/self_attention/layer", block.self_attention),
        **_norm(
            f"{path}/self_attention/{norm_name}", block.self_attention_norm
        ),
        **_dense(f"{path}/ffn/layer/inner", dense.intermediate_dense),
        **_dense(f"{path}/ffn/layer/outer", dense.output_dense),
        **_norm(f"{path}/ffn/{norm_name}", block.feed_forward_norm),
    }
    if hasattr(block, "cross_attention"):
        # One for each source; here there is one source.
        path = f"{path}/attention/0"
        weights |= _attention(f"{path}/layer", block.cross_attention)
        weights |= _norm(f"{path}/{norm_name}", block.cross_attention_norm)
    return weights


def _attention(path, layer):
    weights = {
        **_dense(f"{path}/linear_queries", layer.query_dense),
        **_dense(f"{path}/linear_keys", layer.key_dense),
        **_dense(f"{path}/linear_values", layer.value_dense),
        **_dense(f"{path}/linear_output", layer.output_dense, num_inputs=2),
    }
    if getattr(layer, "key_relation_embeddings", None) is not None:
        table = f"{path}/relative_position"
        weights |= {
            f"{table}_keys": _reshaped(layer.key_relation_embeddings),
            f"{table}_values": _reshaped(layer.value_relation_embeddings),
        }
    return weights


def _dense(path, layer, num_inputs=1):
    """Kernel and bias; OpenNMT-tf joins the axes of heads and their size.

    Args:
        path: string.
        layer: dense layer.
        num_inputs: int. How many axes of the kernel are of the inputs.
    """
    shape = tuple(layer.kernel.shape)
    stored_shape = (
        math.prod(shape[:num_inputs]),
        math.prod(shape[num_inputs:]),
    )
    weights = {f"{path}/kernel": _reshaped(layer.kernel, stored_shape)}
    if layer.bias is not None:
        weights[f"{path}/bias"] = _reshaped(layer.bias, stored_shape[1:])
    return weights


def _norm(path, layer):
    return {
        f"{path}/gamma": _reshaped(layer.gamma),
        f"{path}/beta": _reshaped(layer.beta),
    }


def _reshaped(variable, stored_shape=None):
    shape = tuple(variable.shape)
    return StoredWeight(
        variable, stored_shape or shape, lambda array: array.reshape(shape)
    )
