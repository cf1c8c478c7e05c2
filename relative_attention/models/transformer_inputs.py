"""Checks the inputs that a `Transformer` is called with."""

from typing import Any

import keras

from relative_attention.ops.masks import same_size
from relative_attention.tensor_type import Tensor

NAMES = ("source_token_ids", "target_token_ids")


def input_specs() -> list[keras.layers.InputSpec]:
    """Returns a `keras.layers.InputSpec` of each input; Keras checks ranks."""
    return [keras.layers.InputSpec(ndim=2, name=name) for name in NAMES]


def token_id_signature() -> list[dict[str, keras.layers.InputSpec]]:
    """Returns the signature of an exported model, for batches of any size."""
    specs = {
        name: keras.layers.InputSpec(
            shape=(None, None), dtype="int32", name=name
        )
        for name in NAMES
    }
    return [specs]


def check_token_ids(name: str, token_ids: Tensor) -> None:
    """Raises `ValueError` unless ids have a row for each sentence.

    Args:
        name: string. The argument, for the message.
        token_ids: what should be an int tensor `(B, T)`.
    """
    shape = tuple(token_ids.shape)
    if len(shape) != 2:
        raise ValueError(
            f"`{name}` must have two axes, a row for each sentence. Received "
            f"shape: {shape}."
        )


def check_inputs(inputs: Any) -> None:
    """Raises `ValueError` unless inputs have a source for every target.

    Args:
        inputs: what should be a dict of int tensors `(B, S)` and `(B, T)`.
    """
    if not isinstance(inputs, dict) or not set(NAMES) <= set(inputs):
        received = (
            f"a dict with the keys {sorted(inputs)}"
            if isinstance(inputs, dict)
            else f"a {type(inputs).__name__}"
        )
        raise ValueError(
            '`inputs` must be a dict of "source_token_ids" and '
            f'"target_token_ids". Received: {received}.'
        )
    for name in NAMES:
        check_token_ids(name, inputs[name])
    source, target = (tuple(inputs[name].shape) for name in NAMES)
    if not same_size(source[0], target[0]):
        raise ValueError(
            "`source_token_ids` and `target_token_ids` must be of as many "
            f"sentences. Received shapes: {source} and {target}."
        )
