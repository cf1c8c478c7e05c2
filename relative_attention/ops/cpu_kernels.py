"""Operations that are faster on CPUs than Keras' own.

On a CPU a pass over memory costs more than the arithmetic in it. So the speed
depends on what is kept for the gradient, and on how often a tensor is read.
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

    Only the input of the second product is kept for the gradient. It is above 0
    where neither ReLU nor dropout gave 0, and there the slope of both is
    `scale`. Automatic differentiation would also keep the outputs of the ReLU
    and the dropout mask.

    Args:
        rows: float tensor `(R, D)`.
        first_kernel, first_bias: float tensors `(D, F)` and `(F,)`.
        second_kernel, second_bias: float tensors `(F, D)` and `(D,)`.
        factors: float tensor `(R, F)`, the factors of dropout, 0 or `scale`;
            or `None` for no dropout.
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
            # The scale is applied to the narrower of the two tensors.
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
    """Sums rows `(R, D)` by a matrix product, which reads them only once."""
    ones = ops.ones_like(rows[:, :1])
    return ops.matmul(ops.transpose(ones), rows)[0]
