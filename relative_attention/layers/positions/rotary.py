"""Rotary positions: queries and keys rotated by angles (Su et al. 2021)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_positive
from relative_attention.layers.positions.position_encoding import (
    PositionEncoding,
)
from relative_attention.ops.backend import wide_dtype
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class Rotary(PositionEncoding):
    """Queries and keys are rotated by angles that grow with their positions.

    Features are taken in pairs. The query at position `m` and the key at `n`
    are rotated, pair `i` by the angles `m theta_i` and `n theta_i`, where
    `theta_i = max_wavelength^(-2i / H)`, `i = 0 .. H/2 - 1` (eq. 15). Their
    product then only depends on the distance (eq. 16):

        q_m^T k_n = x_m^T W_q R(n - m) W_k^T x_n

    Values are not rotated, and there are no weights. The rest of attention is
    as without positions.

    The paper pairs the features `2i` and `2i + 1`. This pairs `i` and
    `i + H/2`, as KerasHub's `RotaryEmbedding` does. This only reorders the
    features of each head, in the same way for queries and keys. Angles are
    float32 in half precision.

    Args:
        max_wavelength: float. Base of the angles; the slowest pair turns once
            in about `2 pi max_wavelength` tokens. Defaults to `10000.0`, the
            paper's.

    Raises:
        ValueError: if `max_wavelength` is not positive, or the `key_dim` of a
            layer is odd.

    Example:
    >>> layer = ra.SelfAttention(8, 64, ra.positions.Rotary())

    Reference:
     - [Su et al., 2021](https://arxiv.org/abs/2104.09864), section 3.2.2
    """

    def __init__(self, max_wavelength: float = 10000.0) -> None:
        self.max_wavelength = checked_positive("max_wavelength", max_wavelength)

    def check(self, key_dim: int) -> None:
        if key_dim % 2:
            raise ValueError(
                "`key_dim` must be even with rotary positions, which rotate "
                f"pairs of features. Received: key_dim={key_dim}."
            )

    def build(self, layer: keras.layers.Layer, bidirectional: bool) -> None:
        self.check(layer.key_dim)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotates the pairs of features of `x` by their angles (eq. 34)."""
        size = x.shape[-1]
        theta = self.max_wavelength ** -(np.arange(0, size, 2) / size)
        dtype = wide_dtype(x)
        angles = ops.expand_dims(ops.cast(positions, dtype), -1)
        angles = angles * ops.convert_to_tensor(theta, dtype)
        cos = ops.cast(ops.cos(angles), x.dtype)  # (..., H / 2)
        sin = ops.cast(ops.sin(angles), x.dtype)
        first, second = x[..., : size // 2], x[..., size // 2 :]
        return ops.concatenate(
            [first * cos - second * sin, second * cos + first * sin], axis=-1
        )

    def get_config(self) -> dict[str, Any]:
        return {"max_wavelength": self.max_wavelength}
