"""The projections into heads and out of them."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relative_attention.layers.argument_types import Shape
from relative_attention.layers.quantization_mode import check_quantization_mode
from relative_attention.ops.backend import static_shape
from relative_attention.tensor_type import Tensor


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
