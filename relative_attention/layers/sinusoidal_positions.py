"""Sinusoidal position encodings."""

import math
from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_positive
from relative_attention.layers.argument_types import Shape
from relative_attention.ops.backend import sizes
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class SinusoidalPositions(keras.layers.Layer):
    """Adds sines and cosines of the absolute position to embeddings.

    The columns are tensor2tensor's: all sines, then all cosines, then a zero
    if `D` is odd, with wavelengths from `2 pi` to `2 pi * max_wavelength`.
    # Differs from the paper: Vaswani et al. alternate sine and cosine, a
    permutation of columns that the next matrix absorbs.

    Args:
        max_wavelength: float. The longest wavelength, in units of `2 pi`
            positions. Defaults to `10_000`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        start_position: int. Position of the first row, for cached decoding.
            Defaults to `0`.

    Returns:
        Float tensor `(B, T, D)`.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.5
    """

    # The fields of a `TransformerConfig` that are its arguments.
    config_fields: tuple[str, ...] = ()

    def __init__(self, max_wavelength: float = 10_000, **kwargs: Any) -> None:
        max_wavelength = checked_positive("max_wavelength", max_wavelength)
        super().__init__(**kwargs)
        self.max_wavelength = max_wavelength
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def call(self, inputs: Tensor, start_position: int | Tensor = 0) -> Tensor:
        _, length, hidden_dim = sizes(inputs)
        positions = ops.arange(length, dtype="int32") + start_position
        encodings = self.encode(positions, hidden_dim)
        return inputs + ops.cast(encodings, inputs.dtype)

    def encode(self, positions: Tensor, hidden_dim: int) -> Tensor:
        """Computes the encodings that are added.

        Args:
            positions: int tensor `(T,)`, absolute, 0 first.
            hidden_dim: int. Number of columns `D`.

        Returns:
            float32 tensor `(T, D)`.
        """
        # Column c of either half is an angle position * w_c, with
        # w_c = max_wavelength^(-c / (D / 2 - 1)), c = 0 first.
        num_timescales = hidden_dim // 2
        log_increment = math.log(self.max_wavelength) / max(
            num_timescales - 1, 1
        )
        frequencies = ops.exp(
            ops.arange(num_timescales, dtype="float32") * -log_increment
        )
        angles = ops.cast(positions, "float32")[:, None] * frequencies[None]
        encodings = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)
        return ops.pad(encodings, ((0, 0), (0, hidden_dim % 2)))

    # The argument is named as that of `build`, by which Keras passes it.
    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
        }
