"""The shape of a tensor with as little as possible left to run time."""

from keras import ops


def fixed_shape(tensor):
    """The shape of a tensor, for `ops.reshape`.

    In a TensorFlow graph each size that is not known beforehand costs three
    operations, which is most of what a reshape costs where tensors are small;
    one such size can be inferred.

    Args:
        tensor: tensor of any shape, not empty.

    Returns:
        Tuple of int. A single size that is not known beforehand is `-1`;
        where there are more, each is an int scalar tensor.
    """
    shape = tuple(tensor.shape)
    if shape.count(None) == 1 and 0 not in shape:
        return tuple(-1 if size is None else size for size in shape)
    return tuple(ops.shape(tensor))
