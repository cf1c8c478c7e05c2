"""Learned absolute position embeddings."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.layers.argument_types import Shape
from relative_attention.layers.width_spec import known_width
from relative_attention.layers.width_spec import width_spec
from relative_attention.ops.backend import sizes
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class LearnedPositions(keras.layers.Layer):
    """Adds a learned embedding of the absolute position to embeddings.

    Args:
        max_length: int. Number of positions that have an embedding of their
            own; positions beyond share the last one.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        start_position: int. Position of the first row, for cached decoding.
            Defaults to `0`.

    Returns:
        Float tensor `(B, T, D)`.

    Reference:
     - [Gehring et al., 2017](https://arxiv.org/abs/1705.03122), section 3.1
    """

    # The fields of a `TransformerConfig` that are its arguments.
    config_fields: tuple[str, ...] = ("max_length",)

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        max_length = checked_int("max_length", max_length)
        super().__init__(**kwargs)
        self.max_length = max_length
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        hidden_dim = known_width(inputs_shape)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, hidden_dim),
            initializer=keras.initializers.RandomNormal(
                stddev=hidden_dim**-0.5
            ),
        )

    def call(self, inputs: Tensor, start_position: int | Tensor = 0) -> Tensor:
        length = sizes(inputs)[1]
        positions = ops.arange(length, dtype="int32") + start_position
        positions = ops.minimum(positions, self.max_length - 1)
        rows = ops.take(self.embeddings, positions, axis=0)
        return inputs + ops.cast(rows, inputs.dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
