"""Rows by index, as cheaply as the backend has it."""

import keras
from keras import ops


def take_rows(values, rows):
    """`ops.take(values, rows, axis=0)` for indices that are not negative.

    On TensorFlow `ops.take` spends five operations on negative ones; a step
    of decoding, of small tensors, takes rows a dozen times.

    Args:
        values: tensor `(R, ...)`.
        rows: int tensor of indices in `[0, R)`.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.take(values, rows, axis=0)
    import tensorflow as tf

    return tf.gather(values, rows)
