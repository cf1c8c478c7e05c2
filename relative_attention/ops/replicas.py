"""The replicas of a model that train together under `tf.distribute`.

A mean over the tokens of a batch is one over the tokens of all replicas: each
divides its own sum by the number of all, and the sums add up. On JAX an array
that is spread over devices is one array already, and nothing is to be done.
"""

from typing import Any

import keras

from relative_attention.tensor_type import Tensor


def sum_over_replicas(value: Tensor) -> Tensor:
    """Sums a tensor over all replicas, so that each has the sum.

    Args:
        value: tensor.

    Returns:
        Tensor of the same shape; `value` itself where there is one replica,
        and outside a replica.
    """
    context = _replica_context()
    if context is None:
        return value
    return context.all_reduce("SUM", value)


def num_replicas() -> int:
    """Returns the number of replicas, 1 outside of one."""
    context = _replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def replica_number() -> int | Tensor:
    """Returns which replica this is: int scalar, 0 first or where it is one."""
    context = _replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _replica_context() -> Any | None:
    """Returns TensorFlow's replica context, `None` where it is the only one."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return context
