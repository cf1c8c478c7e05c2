"""Initial values of a kernel with head axes, drawn as those of a matrix."""

import math
from typing import Any

import keras
from keras import ops

from relative_attention.layers.argument_types import InitializerLike
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class MatrixInitializer(keras.initializers.Initializer):
    """Draws a kernel `(D, N, H)` or `(N, H, D)` as a matrix, then reshapes.

    An initializer that looks at fan-in and fan-out (Glorot's, say) takes a
    3-D shape for a convolution and makes the values `sqrt(N)` times too small
    or worse. As a matrix it sees what the projection is.

    Args:
        initializer: `keras.initializers.Initializer` of the matrix.
        num_input_axes: int. How many leading axes of the shape are inputs.
    """

    def __init__(
        self, initializer: InitializerLike, num_input_axes: int
    ) -> None:
        self.initializer = keras.initializers.get(initializer)
        self.num_input_axes = num_input_axes

    def __call__(
        self, shape: tuple[int, ...], dtype: str | None = None
    ) -> Tensor:
        rows = math.prod(shape[: self.num_input_axes])
        columns = math.prod(shape[self.num_input_axes :])
        return ops.reshape(
            self.initializer((rows, columns), dtype=dtype), shape
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "initializer": keras.initializers.serialize(self.initializer),
            "num_input_axes": self.num_input_axes,
        }
