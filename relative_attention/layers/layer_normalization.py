"""Layer normalization over the last axis."""

from typing import Any

import keras

from relative_attention.ops.cpu_kernels import layer_normalization
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` with a faster gradient on CPUs.

    On PyTorch and on GPUs it computes as Keras' own does.

    Takes the arguments of `keras.layers.LayerNormalization`, of which it
    supports the default axis with scale and centre. `epsilon` defaults to
    `1e-6`, tensor2tensor's, where Keras has `1e-3`.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)
        if self.axis not in (-1, [-1]) or not (self.scale and self.center):
            raise ValueError(
                "`axis` must be -1 and `scale` and `center` must be True; "
                "use `keras.layers.LayerNormalization` for anything else. "
                f"Received: axis={self.axis}, scale={self.scale}, "
                f"center={self.center}."
            )

    def call(self, inputs: Tensor) -> Tensor:
        outputs = layer_normalization(
            inputs, self.gamma, self.beta, self.epsilon
        )
        return keras.ops.cast(outputs, self.compute_dtype)
