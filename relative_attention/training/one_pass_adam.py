"""Adam's update of a weight as one operation of TensorFlow.

Keras spells the update out, in some twenty operations a weight, each a pass
over memory; on a CPU a tenth of a training step of a small model was theirs,
and a quarter of the nodes of its graph.
"""

from typing import Any

import keras

from relative_attention.tensor_type import Tensor


def beta_powers(
    iterations: keras.Variable | Tensor, *betas: float
) -> list[Tensor]:
    """Computes the powers of Adam's betas that the biases are corrected by.

    Args:
        iterations: the number of updates before this one, an int scalar.
        *betas: floats.

    Returns:
        List of float32 scalars, `beta ** (iterations + 1)` of each.
    """
    import tensorflow as tf

    step = keras.ops.cast(iterations + 1, "float32")
    return [tf.pow(tf.constant(beta, "float32"), step) for beta in betas]


def apply_adam(
    variable: Any,
    moments: tuple[keras.Variable, keras.Variable],
    gradient: Tensor,
    learning_rate: Tensor,
    betas: tuple[float, float],
    powers: list[Tensor],
    epsilon: float,
) -> None:
    """Updates a weight and its moments as `keras.optimizers.Adam` does.

        m += (g - m) (1 - beta_1)
        v += (g^2 - v) (1 - beta_2)
        w -= a m / (sqrt(v) + epsilon)
        a  = learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t)

    The numbers are Keras' but for how `1 - beta` is rounded.

    Args:
        variable: `tf.Variable`, the weight; under a strategy that of one
            replica, within an update of it.
        moments: pair of variables, `m` and `v`.
        gradient: float tensor of their shape.
        learning_rate: float scalar.
        betas: pair of floats.
        powers: of `beta_powers`.
        epsilon: float.
    """
    import tensorflow as tf

    dtype = variable.dtype

    def scalar(value: Tensor | float) -> Tensor:
        return tf.cast(value, dtype)

    first, second = moments
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=first.value.handle,
        v=second.value.handle,
        beta1_power=scalar(powers[0]),
        beta2_power=scalar(powers[1]),
        lr=scalar(learning_rate),
        beta1=scalar(betas[0]),
        beta2=scalar(betas[1]),
        epsilon=scalar(epsilon),
        grad=scalar(gradient),
    )
