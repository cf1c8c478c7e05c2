"""Dense layers: projections into heads and out of them, and feed-forward."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.errors import InputError
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import static_shape
from relative_attention.ops.cpu_kernels import feed_forward
from relative_attention.tensor_type import Shape
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

    def __init__(self, initializer: Any, num_input_axes: int) -> None:
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


@keras.saving.register_keras_serializable(package="relative_attention")
class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense`, computed as one matrix product.

    The same kernel and the same numbers. On TensorFlow the gradient of Keras'
    einsum with respect to the kernel is one product per sentence, summed over
    the batch afterwards: 40 % of a training step on a CPU. Flattened to a
    matrix, the sum is part of the product.

    Takes the arguments of `keras.layers.EinsumDense`; the axes that the
    equation contracts must be the last of the inputs and the first of the
    kernel, in the same order.

    `quantize("int8")` and `enable_lora` are Keras': an int8 layer computes
    Keras' own product, and an adapted kernel is merged before the product.
    """

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        # The axis of time stays where it is, and with it a mask.
        self.supports_masking = True
        # A contracted axis is one of the inputs and of the kernel, every
        # other axis of either is one of the outputs.
        output_rank = 1 + len(self.partial_output_shape)
        self.num_contracted_axes = (
            len(input_shape) + len(self.kernel.shape) - output_rank
        ) // 2

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        num_contracted = self.num_contracted_axes
        # Read once: an adapted kernel is computed at every reading.
        kernel = self.kernel
        kernel_shape = tuple(kernel.shape)
        num_rows = math.prod(kernel_shape[:num_contracted])
        outputs = ops.matmul(
            ops.reshape(inputs, (-1, num_rows)),
            ops.reshape(kernel, (num_rows, -1)),
        )
        batch_shape = static_shape(inputs)[:-num_contracted]
        outputs = ops.reshape(
            outputs, batch_shape + kernel_shape[num_contracted:]
        )
        return outputs if self.bias is None else outputs + self.bias

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: Any = None,
    ) -> None:
        """Stores the kernel as int8, as `keras.layers.EinsumDense` does.

        Args:
            mode: string. `"int8"`.
            type_check: A boolean to indicate whether a subclass, which may
                compute something else, is refused. Defaults to `True`.
            config: `keras.quantizers.Int8QuantizationConfig`. Without its
                activation quantizer the inputs stay as they are.

        Raises:
            NotImplementedError: if the mode is another, or the layer is of a
                subclass.
        """
        if type_check and type(self) is not HeadProjection:
            raise self._not_implemented_error(self.quantize)
        check_quantization_mode(mode)
        # Keras refuses subclasses of its layer as well, unless told not to.
        super().quantize(mode, type_check=False, config=config)

    def compute_output_shape(
        self, input_shape: Shape
    ) -> tuple[int | None, ...]:
        """Returns the shape of the outputs.

        Args:
            input_shape: tuple, shape of the inputs.
        """
        output_shape = super().compute_output_shape(input_shape)
        # Keras before 3.15 answers with the sizes that it was built for.
        kernel_axes, output_axes = self.equation.split(",")[1].split("->")
        num_contracted = len(set(kernel_axes) - set(output_axes))
        batch_shape = tuple(input_shape)[: len(input_shape) - num_contracted]
        return (*batch_shape, *output_shape[len(batch_shape) :])


def project_to_heads(
    inputs: Tensor, projections: Sequence[HeadProjection]
) -> list[Tensor]:
    """Projects `inputs` by several `HeadProjection`s in one matrix product.

    One product is faster than three, and so is one gradient with respect to
    `inputs`. Of few rows it is slower: the kernels must be put side by side.

    Args:
        inputs: float tensor `(B, T, D)`.
        projections: built `HeadProjection`s with kernels `(D, N, H)`, the
            same `N` in all. Where `H` differs, or a kernel is int8, each is
            computed on its own.

    Returns:
        List of float tensors `(B, N, T, H)`, one for each projection.
    """
    is_quantized = any(p.quantization_mode is not None for p in projections)
    if len(projections) == 1 or is_quantized:
        return _project_apart(inputs, projections)
    batch_size, length, hidden_dim = static_shape(inputs)
    kernels = [ops.cast(p.kernel, inputs.dtype) for p in projections]
    _, num_heads, head_dim = kernels[0].shape
    if any(kernel.shape[-1] != head_dim for kernel in kernels):
        return _project_apart(inputs, projections)
    kernel = ops.reshape(
        ops.stack(kernels, axis=1),  # (D, projections, N, H)
        (hidden_dim, -1),
    )
    outputs = ops.matmul(ops.reshape(inputs, (-1, hidden_dim)), kernel)
    outputs = ops.reshape(
        outputs, (batch_size, length, len(kernels), num_heads, head_dim)
    )
    if projections[0].bias is not None:
        outputs = outputs + ops.stack(
            [ops.cast(p.bias, outputs.dtype) for p in projections]
        )
    return ops.unstack(ops.transpose(outputs, (2, 0, 3, 1, 4)), axis=0)


def _project_apart(
    inputs: Tensor, projections: Sequence[HeadProjection]
) -> list[Tensor]:
    return [ops.transpose(p(inputs), (0, 2, 1, 3)) for p in projections]


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


def width_spec(inputs_shape: Shape, **spec: int) -> keras.layers.InputSpec:
    """Specifies inputs of the width that a layer was built for.

    Args:
        inputs_shape: shape of the inputs, a tuple.
        **spec: arguments of `keras.layers.InputSpec`, `ndim` or `min_ndim`.

    Returns:
        `keras.layers.InputSpec`.

    Raises:
        ValueError: if the last size is not known.
    """
    return keras.layers.InputSpec(axes={-1: known_width(inputs_shape)}, **spec)


def known_width(inputs_shape: Shape) -> int:
    """Returns the last size of a shape; raises `ValueError` for `None`."""
    width = inputs_shape[-1]
    if width is None:
        raise ValueError(
            "The last axis of `inputs` must have a known size. Received "
            f"shape: {tuple(inputs_shape)}."
        )
    return width


def check_quantization_mode(mode: str | None) -> None:
    """Raises `NotImplementedError` unless the mode is `"int8"`.

    Of this error `keras.Model.quantize` makes a warning, and goes on to the
    next layer.

    Args:
        mode: string.

    Raises:
        InputError: if the installed Keras is too old.
    """
    check_keras_quantizes()
    if mode != "int8":
        raise NotImplementedError(
            f'`mode` must be "int8". Received: mode={mode!r}.'
        )


def check_keras_quantizes() -> None:
    """Raises `InputError` if the installed Keras is too old for int8."""
    if not hasattr(keras.quantizers, "Int8QuantizationConfig"):
        raise InputError(
            "Weights in int8 need Keras 3.13 or newer. Received: Keras "
            f"{keras.__version__}. `pip install --upgrade keras` gets it."
        )
