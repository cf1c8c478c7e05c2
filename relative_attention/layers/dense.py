"""Dense layers: projections to heads and back, and feed-forward."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import Unpack

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.errors import InputError
from relative_attention.layers.arguments import LayerArguments
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.backend import has_own_kernels
from relative_attention.ops.backend import matmul
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import static_shape
from relative_attention.ops.cpu_kernels import feed_forward
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor

# Arguments of a quantized layer, and its attributes. Keras before 3.13 has no
# config of it.
_OF_QUANTIZED = {
    "dtype": "dtype_policy",
    "quantization_config": "quantization_config",
}


def draw_as_matrix(
    initializer: Callable[..., Tensor], num_input_axes: int
) -> Callable[..., Tensor]:
    """Makes an initializer draw a kernel as a matrix, then reshapes it.

    An initializer that uses fan-in and fan-out, such as Glorot's, takes the
    shape `(D, N, H)` or `(N, H, D)` for a convolution, and makes the values
    `sqrt(N)` times too small or worse. The matrix has the right fan-in and
    fan-out.
    """

    def draw(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        rows = math.prod(shape[:num_input_axes])
        matrix = initializer((rows, math.prod(shape) // rows), dtype=dtype)
        return ops.reshape(matrix, shape)

    return draw


class QuantizableLayer(keras.layers.Layer):
    """A mixin for subclasses of Keras' layers, which quantize as these do."""

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: Any = None,
    ) -> None:
        check_keras_quantizes()
        # Keras refuses subclasses of its layer, unless told not to.
        super().quantize(mode, type_check=False, config=config)


class SublayerMaker(keras.layers.Layer):
    """A mixin for layers that make sublayers which can be quantized.

    Keras saves how a layer is quantized only in the config of that layer. A
    file has no config of a sublayer. So the layer that makes the sublayer saves
    how the sublayer is quantized.

    Args:
        quantized_layers: dict, by the names of quantized sublayers, of their
            arguments, as `get_config` has it. Defaults to `None`, none.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        quantized_layers: dict[str, Any] | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self._quantized_layers = quantized_layers or {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                # PyTorch's modules look up their attributes here.
                if keras.backend.backend() == "torch":
                    return super().__getattr__(name)
                return super().__getattribute__(name)
            except AttributeError as error:
                if name.endswith("_dense") and not self.__dict__.get("built"):
                    raise AttributeError(
                        f"`{name}` is made when the layer is built. Call the "
                        f"`{type(self).__name__}`, or its `build`, first."
                    ) from error
                raise

    def _sublayer_arguments(self, name: str) -> dict[str, Any]:
        """Returns the arguments of a sublayer that it shares with the layer.

        Args:
            name: string. The name of the sublayer.
        """
        arguments = {
            "name": name,
            "dtype": self.dtype_policy,
            # Of a layer that is frozen before it is built, as in a file.
            "trainable": self.trainable,
        }
        deserialize = keras.saving.deserialize_keras_object
        for key, value in self._quantized_layers.get(name, {}).items():
            arguments[key] = deserialize(value)
        return arguments

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        serialize = keras.saving.serialize_keras_object
        quantized = {
            layer.name: {
                key: serialize(getattr(layer, attribute))
                for key, attribute in _OF_QUANTIZED.items()
                if hasattr(layer, attribute)
            }
            for layer in self._flatten_layers(
                include_self=False, recursive=False
            )
            if layer.quantization_mode is not None
        }
        if quantized:
            config["quantized_layers"] = quantized
        return config


@keras.saving.register_keras_serializable(package="relative_attention")
class HeadProjection(QuantizableLayer, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense`, computed as one matrix product.

    It has the same kernel and gives the same numbers. On TensorFlow the
    gradient of Keras' einsum with respect to the kernel is one product per
    sentence, then a sum over the batch: 40 % of a training step on a CPU. With
    a matrix, the sum is part of the product.

    Takes the arguments of `keras.layers.EinsumDense`. The axes that the
    equation contracts must be the last of the inputs and the first of the
    kernel, in the same order.

    `quantize` and `enable_lora` are Keras' own. A quantized layer uses Keras'
    product; adapters are added to the kernel before the product.
    """

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        # The time axis does not move, so a mask still applies.
        self.supports_masking = True
        # A contracted axis is in the inputs and the kernel; every other axis
        # of either is in the outputs.
        output_rank = 1 + len(self.partial_output_shape)
        self.num_contracted_axes = (
            len(input_shape) + len(self.kernel.shape) - output_rank
        ) // 2

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        num_contracted = self.num_contracted_axes
        # Read once: an adapted kernel is computed whenever it is read.
        kernel = self.kernel
        kernel_shape = tuple(kernel.shape)
        num_rows = math.prod(kernel_shape[:num_contracted])
        outputs = matmul(
            ops.reshape(inputs, (-1, num_rows)),
            ops.reshape(kernel, (num_rows, -1)),
        )
        batch_shape = static_shape(inputs)[:-num_contracted]
        outputs = ops.reshape(
            outputs, batch_shape + kernel_shape[num_contracted:]
        )
        return outputs if self.bias is None else outputs + self.bias


@keras.saving.register_keras_serializable(package="relative_attention")
class FeedForward(SublayerMaker):
    """Two dense layers with a ReLU between, the same at every position.

    `max(0, x W_1 + b_1) W_2 + b_2`. Outputs have the size of the inputs.

    Args:
        intermediate_dim: int. Size `F` of the inner layer.
        dropout: float. Rate in `[0, 1)` after the ReLU. The paper has no
            dropout here; tensor2tensor has 0.1 since its second set of
            hyperparameters. Defaults to `0.0`.
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
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate_dim = checked_int(
            "intermediate_dim", intermediate_dim
        )
        self.dropout = checked_rate("dropout", dropout)
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(min_ndim=2)
        self.intermediate_dense = keras.layers.Dense(
            self.intermediate_dim,
            activation="relu",
            **self._sublayer_arguments("intermediate"),
        )
        self.dropout_layer = Dropout(
            self.dropout, seed=seed, dtype=self.dtype_policy
        )

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, min_ndim=2)
        hidden_dim = self.input_spec.axes[-1]
        self.intermediate_dense.build((None, hidden_dim))
        self.output_dense = keras.layers.Dense(
            hidden_dim, **self._sublayer_arguments("output")
        )
        self.output_dense.build((None, self.intermediate_dim))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        # With a matrix, TensorFlow fuses product, bias and ReLU.
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        if self._has_own_gradient() and training:
            outputs = self._with_own_gradient(rows)
        else:
            hidden = self.intermediate_dense(rows)
            hidden = self.dropout_layer(hidden, training=training)
            outputs = self.output_dense(hidden)
        return ops.reshape(outputs, static_shape(inputs))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "seed": self.seed,
        }

    def _has_own_gradient(self) -> bool:
        """Tells whether `ops.cpu_kernels` computes the layer."""
        dense_layers = (self.intermediate_dense, self.output_dense)
        return has_own_kernels() and not any(
            dense.quantization_mode or dense.activity_regularizer
            for dense in dense_layers
        )

    def _with_own_gradient(self, rows: Tensor) -> Tensor:
        """Computes rows `(R, D)` in training."""
        kept, draw = None, self.dropout_layer.for_call(training=True)
        if draw is not None:
            kept = draw((*sizes(rows)[:1], self.intermediate_dim))
        # Tensors, because a custom gradient does not accept variables.
        first, second = self.intermediate_dense, self.output_dense
        return feed_forward(
            rows,
            ops.cast(first.kernel, rows.dtype),
            ops.cast(first.bias, rows.dtype),
            ops.cast(second.kernel, rows.dtype),
            ops.cast(second.bias, rows.dtype),
            kept,
        )


def width_spec(inputs_shape: Shape, **spec: int) -> keras.layers.InputSpec:
    """Returns the input spec of a layer built for inputs of this width.

    `spec` has `ndim` or `min_ndim`. An unknown width is a `ValueError`.
    """
    width = inputs_shape[-1]
    if width is None:
        raise ValueError(
            "The last axis of `inputs` must have a known size. Received "
            f"shape: {tuple(inputs_shape)}."
        )
    return keras.layers.InputSpec(axes={-1: width}, **spec)


def check_keras_quantizes() -> None:
    """Raises `InputError` if the installed Keras is too old for int8."""
    if not hasattr(keras.quantizers, "Int8QuantizationConfig"):
        raise InputError(
            "Weights in int8 need Keras 3.13 or newer. Received: Keras "
            f"{keras.__version__}. `pip install --upgrade keras` gets it."
        )
