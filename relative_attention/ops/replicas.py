"""Replicas of a model that train together under `tf.distribute`.

A mean over the tokens of a batch is one over the tokens of all replicas: each
divides its own sum by the number of all, and the sums add up. On JAX an array
that is spread over devices is one array already, and nothing is to be done.
"""

import contextlib
import threading

import keras

_local = threading.local()


def sum_over_replicas(value):
    """The sum of a tensor over all replicas, the same on each.

    The tensor itself where there is one replica, outside a replica, and
    within `counting_alone`.
    """
    context = _replica_context()
    if context is None or is_counting_alone():
        return value
    return context.all_reduce("SUM", value)


@contextlib.contextmanager
def counting_alone():
    """Within it, `sum_over_replicas` leaves every tensor as it is.

    For parts of a batch in a loop: replicas cannot meet inside one.
    """
    _local.counts_alone = True
    try:
        yield
    finally:
        _local.counts_alone = False


def is_counting_alone():
    """Whether this is within `counting_alone`."""
    return getattr(_local, "counts_alone", False)


def num_replicas():
    """How many replicas there are: int, 1 outside of one."""
    context = _replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def replica_number():
    """Which replica this is: int scalar, 0 first; 0 where there is one."""
    context = _replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _replica_context():
    """TensorFlow's, where it is one of several replicas; else `None`."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return context
