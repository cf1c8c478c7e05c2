"""Tells where and how OpenNMT-tf stores each weight of a `Transformer`."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from relative_attention.models import Transformer
from relative_attention.tensor_type import Tensor

SOURCE_EMBEDDING = "model/examples_inputter/features_inputter/embedding"
TARGET_EMBEDDING = "model/examples_inputter/labels_inputter/embedding"
OUTPUT_KERNEL = "model/decoder/output_layer/kernel"
OUTPUT_BIAS = "model/decoder/output_layer/bias"


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """Pairs a weight with how OpenNMT-tf stores it.

    Attributes:
        variable: The Keras variable.
        shape: The shape of the stored array.
        convert: A function that makes the variable's array of the stored one.
    """

    variable: keras.Variable
    shape: tuple[int, ...]
    convert: Callable[[np.ndarray], np.ndarray]


def stored_weights(model: Transformer) -> dict[str, StoredWeight]:
    """Returns every weight of a model by its path in OpenNMT-tf.

    Args:
        model: `Transformer`.

    Returns:
        Dict of path -> `StoredWeight`. Weights that are shared have the path
        of the first alone.
    """
    # OpenNMT-tf's `LayerWrapper` normalises what goes in (pre-norm) or what
    # comes out (post-norm), and names the variables after it.
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


def position_table(side: str) -> str:
    """Returns the path of the learned positions of a side of the model."""
    return f"model/{side}/position_encoder/position_embedding"


def _embeddings(model: Transformer) -> dict[str, StoredWeight]:
    """Returns the matrices that have a row for each token, and the bias."""
    sharing = model.config.share_embeddings
    weights = {SOURCE_EMBEDDING: _rows(model.source_embedding.embeddings)}
    if sharing in ("target", "none"):
        weights[TARGET_EMBEDDING] = _rows(model.target_embedding.embeddings)
    if sharing in ("source_target", "none"):
        weights[OUTPUT_KERNEL] = _columns(model.output_embedding.embeddings)
    if model.output_bias is not None:
        weights[OUTPUT_BIAS] = _rows(model.output_bias)
    return weights


def _rows(variable: Tensor) -> StoredWeight:
    """Stores a weight that has a row, or an element, for each id."""
    return StoredWeight(variable, tuple(variable.shape), _by_our_ids)


def _columns(variable: Tensor) -> StoredWeight:
    """Stores the same as the kernel of a dense layer, with columns for ids."""
    return StoredWeight(
        variable,
        tuple(variable.shape)[::-1],
        lambda kernel: _by_our_ids(kernel.T),
    )


def _by_our_ids(rows: np.ndarray) -> np.ndarray:
    """Returns rows in the order of this package's ids."""
    # OpenNMT-tf has `<blank>` 0, `<s>` 1 and `</s>` 2; here the end of
    # sentence is 1, and the start becomes 2. What follows keeps its place.
    return rows[[0, 2, 1, *range(3, len(rows))]]


def _positions(variable: Tensor) -> StoredWeight:
    """Stores learned positions, whose table is a row longer there."""
    # OpenNMT-tf counts positions from 1 and never reads its first row.
    length, hidden_dim = variable.shape
    return StoredWeight(
        variable, (length + 1, hidden_dim), lambda table: table[1:]
    )


def _block(path: str, block: Any, norm_name: str) -> dict[str, StoredWeight]:
    """Returns the weights of a layer of the encoder or of the decoder."""
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


def _attention(path: str, layer: Any) -> dict[str, StoredWeight]:
    """Returns the weights of an attention, relation tables included."""
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


def _dense(
    path: str, layer: Any, num_inputs: int = 1
) -> dict[str, StoredWeight]:
    """Returns a kernel and its bias.

    Args:
        path: string. The path of the dense layer.
        layer: dense layer.
        num_inputs: int. The number of axes of the kernel that are inputs.
            Defaults to `1`.
    """
    # Here a kernel is (D, N, H), of outputs (N, H, D); OpenNMT-tf joins heads
    # and their size to one axis, heads first.
    shape = tuple(layer.kernel.shape)
    stored_shape = (
        math.prod(shape[:num_inputs]),
        math.prod(shape[num_inputs:]),
    )
    weights = {f"{path}/kernel": _reshaped(layer.kernel, stored_shape)}
    if layer.bias is not None:
        weights[f"{path}/bias"] = _reshaped(layer.bias, stored_shape[1:])
    return weights


def _norm(path: str, layer: Any) -> dict[str, StoredWeight]:
    """Returns the weights of a layer normalization."""
    return {
        f"{path}/gamma": _reshaped(layer.gamma),
        f"{path}/beta": _reshaped(layer.beta),
    }


def _reshaped(
    variable: Tensor, stored_shape: tuple[int, ...] | None = None
) -> StoredWeight:
    """Stores a weight that is the same but for its shape."""
    shape = tuple(variable.shape)
    return StoredWeight(
        variable, stored_shape or shape, lambda array: array.reshape(shape)
    )
