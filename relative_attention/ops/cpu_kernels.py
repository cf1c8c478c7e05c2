"""Operations that are faster on CPUs written this way than as Keras has them.

On a CPU a pass over memory costs more than the arithmetic in it. What is kept
for a gradient, and how often a tensor is read, decides.
"""

from collections.abc import Callable

from keras import ops

from relative_attention.ops.backend import custom_gradient
from relative_attention.tensor_type import Tensor


def feed_forward(
    rows: Tensor,
    first_kernel: Tensor,
    first_bias: Tensor,
    second_kernel: Tensor,
    second_bias: Tensor,
    factors: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Computes `(max(0, x W_1 + b_1) * factors) W_2 + b_2` with TensorFlow.

    Only what the second product multiplies is kept for the gradient. An
    element of it is above 0 where neither ReLU nor dropout has put a 0, and
    there both together have the slope `scale`. Automatic differentiation
    would keep the outputs of the ReLU and the mask of dropout as well.

    Args:
        rows: float tensor `(R, D)`.
        first_kernel, first_bias: float tensors `(D, F)` and `(F,)`.
        second_kernel, second_bias: float tensors `(F, D)` and `(D,)`.
        factors: float tensor `(R, F)` of what dropout multiplies by, 0 or
            `scale`; or `None` for no dropout.
        scale: float above 0. Defaults to `1.0`.

    Returns:
        Float tensor `(R, D)`.
    """
    import tensorflow as tf

    @custom_gradient
    def compute(
        rows: Tensor,
        first_kernel: Tensor,
        first_bias: Tensor,
        second_kernel: Tensor,
        second_bias: Tensor,
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        hidden = ops.relu(ops.add(ops.matmul(rows, first_kernel), first_bias))
        if factors is not None:
            hidden = hidden * factors
        outputs = ops.add(ops.matmul(hidden, second_kernel), second_bias)

        def gradient(upstream: Tensor) -> tuple[Tensor, ...]:
            # Scaled where it is narrow.
            scaled = upstream if factors is None else upstream * scale
            d_hidden = tf.raw_ops.ReluGrad(
                gradients=ops.matmul(scaled, ops.transpose(second_kernel)),
                features=hidden,
            )
            return (
                ops.matmul(d_hidden, ops.transpose(first_kernel)),
                ops.matmul(ops.transpose(rows), d_hidden),
                _sum_of_rows(d_hidden),
                ops.matmul(ops.transpose(hidden), upstream),
                _sum_of_rows(upstream),
            )

        return outputs, gradient

    return compute(rows, first_kernel, first_bias, second_kernel, second_bias)


def _sum_of_rows(rows: Tensor) -> Tensor:
    """Adds up rows `(R, D)`, as a product, which passes once over them."""
    ones = ops.ones_like(rows[:, :1])
    return ops.matmul(ops.transpose(ones), rows)[0]
