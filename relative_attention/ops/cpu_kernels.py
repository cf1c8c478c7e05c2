"""Operations that are faster on CPUs written this way than as Keras has them.

On a CPU a pass over memory costs more than the arithmetic in it. What is kept
for a gradient, and how often a tensor is read, decides.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from relative_attention.ops.backend import custom_gradient
from relative_attention.ops.backend import prefers_own_kernels
from relative_attention.ops.backend import static_shape
from relative_attention.tensor_type import Tensor


def layer_normalization(
    inputs: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> Tensor:
    """Normalizes the last axis, then scales by `gamma` and shifts by `beta`.

    With mean and variance (of the population) of each row of `D` numbers:

        n = (x - mean) / sqrt(variance + epsilon)
        y = n gamma + beta

    in float32 whatever the input (Ba et al. 2016; epsilon inside the root, as
    in tensor2tensor). Backward, from the gradient `dy`:

        dx     = (dn - mean(dn) - n mean(dn n)) / sqrt(variance + epsilon)
                 of dn = dy gamma, means over the row
        dgamma = sum over rows of dy n
        dbeta  = sum over rows of dy

    Args:
        inputs: float tensor `(..., D)`.
        gamma: float tensor `(D,)`.
        beta: float tensor `(D,)`.
        epsilon: float. Added to the variance.

    Returns:
        Tensor of the shape and dtype of `inputs`.

    Reference:
     - [Ba et al., 2016](https://arxiv.org/abs/1607.06450)
    """
    # Keras before 3.11 has none of its own.
    has_keras_own = hasattr(ops, "layer_normalization")
    if has_keras_own and not prefers_own_kernels():
        return ops.layer_normalization(inputs, gamma, beta, epsilon=epsilon)
    # What automatic differentiation makes of the mean and the variance passes
    # twice as often over memory. Forward and backward pass of 2,048 rows of
    # 512 on two cores, with Keras' own: TensorFlow 1.2 and JAX 2.2 times as
    # long, PyTorch a quarter.
    normalize = _normalization(inputs.dtype, inputs.shape[-1], epsilon)
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
    outputs = normalize(
        rows, ops.cast(gamma, "float32"), ops.cast(beta, "float32")
    )
    return ops.reshape(outputs, static_shape(inputs))


def _normalization(
    dtype: str, hidden_dim: int, epsilon: float
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Returns the function of rows `(R, D)`, `gamma` and `beta`."""

    @custom_gradient
    def normalize(
        rows: Tensor, gamma: Tensor, beta: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        rows = ops.cast(rows, "float32")
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        inverse_deviation = ops.rsqrt(variance + epsilon)
        normalized = centered * inverse_deviation  # n

        def gradient(upstream: Tensor) -> tuple[Tensor, ...]:
            upstream = ops.cast(upstream, "float32")  # dy
            # Both row means are matrix products with gamma / D: no
            # intermediate of the size of the inputs is written for them.
            gamma_mean = ops.reshape(gamma / hidden_dim, (-1, 1))
            product = upstream * normalized
            mean_upstream = ops.matmul(upstream, gamma_mean)  # mean(dn)
            mean_product = ops.matmul(product, gamma_mean)  # mean(dn n)
            d_rows = inverse_deviation * (
                upstream * gamma - mean_upstream - normalized * mean_product
            )
            return (
                ops.cast(d_rows, dtype),
                ops.sum(product, axis=0),
                ops.sum(upstream, axis=0),
            )

        return ops.cast(normalized * gamma + beta, dtype), gradient

    return normalize


def feed_forward(
    rows: Tensor,
    kernels: tuple[Tensor, Tensor],
    biases: tuple[Tensor, Tensor],
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
        kernels: pair of float tensors, `(D, F)` and `(F, D)`.
        biases: pair of float tensors, `(F,)` and `(D,)`.
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

    return compute(rows, kernels[0], biases[0], kernels[1], biases[1])


def _sum_of_rows(rows: Tensor) -> Tensor:
    """Adds up rows `(R, D)`, as a product, which passes once over them."""
    ones = ops.ones_like(rows[:, :1])
    return ops.matmul(ops.transpose(ones), rows)[0]


def random_bytes(size: int | Tensor, seed: Any) -> tuple[Tensor, Tensor]:
    """Draws random bytes, and a random word beside them.

    Args:
        size: int, or int scalar tensor. How many bytes.
        seed: `keras.random.SeedGenerator`.

    Returns:
        Pair of an int32 scalar, and int8 `(size,)`.
    """
    # Saved runs rely on what a seed draws: a word, then the bytes of those
    # that follow it.
    words = _random_words(size // 4 + 2, seed)
    levels = ops.reshape(_bytes_of(words[1:, None]), (-1,))
    return words[0], levels[:size]


def _random_words(count: int | Tensor, seed: Any) -> Tensor:
    """Draws int32 `(count,)`, all values with the same probability."""
    if keras.backend.backend() != "tensorflow":
        return keras.random.randint(
            (count,), -(2**31), 2**31 - 1, dtype="int32", seed=seed
        )
    import tensorflow as tf

    # Keras draws from a range, for which each word is divided by its size.
    # Its random functions make a seed of signed numbers in the same way.
    state = tf.math.floormod(
        tf.convert_to_tensor(seed.next()), tf.int32.max - 1
    )
    words = tf.random.stateless_uniform(
        (count,),
        tf.cast(state, "int32"),
        minval=None,
        maxval=None,
        dtype="int32",
    )
    # The range begins at the least number, to which the word is added: its
    # highest bit is the other. They differ for one word of 2^32, the greatest.
    return tf.bitwise.bitwise_xor(words, -(2**31))


def _bytes_of(words: Tensor) -> Tensor:
    """Reads int32 `(W, 1)` as int8 `(W, 4)`."""
    if hasattr(ops, "view"):
        return ops.view(words, "int8")
    # Keras before 3.12. JAX and PyTorch need a newer one, see setup.py.
    import tensorflow as tf

    return tf.bitcast(words[:, 0], tf.int8)
