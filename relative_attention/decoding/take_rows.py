"""Rows of a tensor by index, as cheaply as the backend takes them."""

import keras
from keras import ops

from relative_attention.tensor_type import Tensor


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Computes `ops.take(values, rows, axis=0)` for indices from 0 on.

    On TensorFlow `ops.take` spends five operations on negative indices; a
    step of decoding, of small tensors, takes rows a dozen times.

    Args:
        values: tensor `(R, ...)`.
        rows: int tensor of indices in `[0, R)`.

    Returns:
        Tensor of the shape of `rows`, followed by that of a row.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.take(values, rows, axis=0)
    import tensorflow as tf

    return tf.gather(values, rows)
