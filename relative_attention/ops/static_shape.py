"""The shape of a tensor with as little as possible left to run time."""

from keras import ops

from relative_attention.tensor_type import Tensor


def static_shape(tensor: Tensor) -> tuple[int | Tensor, ...]:
    """Returns the shape of a tensor, static where it can be.

    In a TensorFlow graph each size that is not known when the graph is built
    costs three operations, which is most of what a reshape costs where
    tensors are small. One such size can be inferred by `ops.reshape`.

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
    return tuple(ops.shape(tensor))
