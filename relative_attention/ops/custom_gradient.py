"""Gradients that are written out, alike on every backend."""

from collections.abc import Callable
from typing import TypeAlias

from keras import ops

from relative_attention.tensor_type import Tensor

# From the gradient of the output to that of each argument.
GradientFunction: TypeAlias = Callable[[Tensor], Tensor | tuple[Tensor, ...]]


def custom_gradient(
    function: Callable[..., tuple[Tensor, GradientFunction]],
) -> Callable[..., Tensor]:
    """Gives a function of tensors the gradient that it returns.

    `keras.ops.custom_gradient` calls the gradient in another way on each
    backend; here it is a function of the gradient of the output alone.

    Args:
        function: takes tensors, returns the pair of a tensor and a function
            from its gradient to those of the arguments.

    Returns:
        Function of the same arguments that returns the tensor.
    """

    @ops.custom_gradient
    def differentiable(*tensors: Tensor) -> tuple[Tensor, Callable]:
        output, gradient = function(*tensors)

        def keras_gradient(
            *arguments: Tensor, upstream: Tensor | None = None
        ) -> Tensor | tuple[Tensor, ...]:
            # TensorFlow and JAX pass the gradient of the output; PyTorch passes
            # the tensors and, by name, the gradient.
            if upstream is None:
                (upstream,) = arguments
            return gradient(upstream)

        return output, keras_gradient

    return differentiable
