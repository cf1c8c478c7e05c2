"""The shape of a tensor with as little as possible left to run time."""

import keras
from keras import ops

from relative_attention.tensor_type import Tensor


def static_shape(tensor: Tensor) -> tuple[int | Tensor, ...]:
    """Returns the shape of a tensor, static where it can be.

    In a TensorFlow graph sizes that are not known when the graph is built
    cost operations, which are most of what a reshape costs where tensors are
    small. One such size can be inferred by `ops.reshape`.

    Args:
        tensor: tensor of any shape, not empty.

    Returns:
        Tuple for `ops.reshape`. A single size that is not known when the
        graph is built is `-1`; where there are more, each is an int scalar
        tensor.

    Example:
    >>> static_shape(ops.zeros((2, 5, 512)))
    (2, 5, 512)
    """
    shape = tuple(tensor.shape)
    # With a size of zero `-1` would be ambiguous: 0 = 0 * anything.
    if shape.count(None) == 1 and 0 not in shape:
        return tuple(-1 if size is None else size for size in shape)
    return sizes(tensor)


def sizes(tensor: Tensor) -> tuple[int | Tensor, ...]:
    """Returns the shape of a tensor as `ops.shape`, by fewer operations.

    Keras cuts each size that is not known out of the shape of a TensorFlow
    graph, by four operations a size, which made up a third of the graph of a
    training step. Here they are taken apart by one.

    Args:
        tensor: tensor of any shape.

    Returns:
        Tuple of int, and of int scalar tensors for the sizes that are not
        known when the graph is built.
    """
    shape = tuple(tensor.shape)
    if None not in shape or isinstance(tensor, keras.KerasTensor):
        return tuple(ops.shape(tensor))
    import tensorflow as tf

    found = tf.unstack(tf.shape(tensor), num=len(shape))
    return tuple(
        at_run_time if size is None else size
        for size, at_run_time in zip(shape, found)
    )
