"""The position-wise feed-forward layer."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.argument_types import Shape
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.width_spec import known_width
from relative_attention.layers.width_spec import width_spec
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import static_shape
from relative_attention.ops.cpu_kernels import feed_forward
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class FeedForward(keras.layers.Layer):
    """Two dense layers with a ReLU between, the same at every position.

    `max(0, x W_1 + b_1) W_2 + b_2`, with as many outputs as inputs.

    Args:
        intermediate_dim: int. Size `F` of the layer between.
        dropout: float. Rate in `[0, 1)` after the ReLU. The paper does not
            drop here; tensor2tensor does since its second set of
            hyperparameters, at 0.1. Defaults to `0.0`.
        seed: int. Seed of the dropout.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        training: bool. Whether dropout is active.

    Returns:
        Float tensor `(B, T, D)`.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.3
    """

    def __init__(
        self,
        intermediate_dim: int,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        intermediate_dim = checked_int("intermediate_dim", intermediate_dim)
        dropout = checked_rate("dropout", dropout)
        super().__init__(**kwargs)
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(min_ndim=2)
        self.intermediate_dense = keras.layers.Dense(
            intermediate_dim,
            activation="relu",
            dtype=self.dtype_policy,
            name="intermediate",
        )
        self.dropout_layer = Dropout(
            dropout, seed=seed, dtype=self.dtype_policy
        )

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, min_ndim=2)
        hidden_dim = known_width(inputs_shape)
        self.intermediate_dense.build((None, hidden_dim))
        self.output_dense = keras.layers.Dense(
            hidden_dim, dtype=self.dtype_policy, name="output"
        )
        self.output_dense.build((None, self.intermediate_dim))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        # As a matrix: TensorFlow then computes product, bias and ReLU in one.
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        if training and self._has_own_gradient():
            return ops.reshape(
                self._with_own_gradient(rows), static_shape(inputs)
            )
        intermediate = self.dropout_layer(
            self.intermediate_dense(rows), training=training
        )
        return ops.reshape(
            self.output_dense(intermediate), static_shape(inputs)
        )

    def _has_own_gradient(self) -> bool:
        """Tells whether `ops.cpu_kernels` computes the layer."""
        dense_layers = (self.intermediate_dense, self.output_dense)
        return keras.backend.backend() == "tensorflow" and not any(
            dense.quantization_mode for dense in dense_layers
        )

    def _with_own_gradient(self, rows: Tensor) -> Tensor:
        """Computes rows `(R, D)` in training."""
        factors = None
        if self.dropout_layer.rate > 0:
            factors = self.dropout_layer.draw_factors(
                (*sizes(rows)[:1], self.intermediate_dim), rows.dtype
            )
        # Tensors: what has a gradient of its own takes no variables.
        first, second = (
            [
                ops.cast(dense.kernel, rows.dtype),
                ops.cast(dense.bias, rows.dtype),
            ]
            for dense in (self.intermediate_dense, self.output_dense)
        )
        return feed_forward(
            rows,
            (first[0], second[0]),
            (first[1], second[1]),
            factors,
            scale=1 / (1 - self.dropout_layer.rate),
        )

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "seed": self.seed,
        }
