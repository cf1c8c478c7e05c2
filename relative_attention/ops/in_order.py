"""The order in which blocks are computed."""

import keras


def after(tensor, first):
    """`tensor`, available once `first` has been computed.

    A TensorFlow graph runs whatever is ready; it would compute the logits of
    every block before the first context vector, and hold all of them. On
    other backends this is `tensor` itself: XLA plans its memory, and PyTorch
    computes in the order of the program.

    Args:
        tensor: tensor.
        first: tensor, or `None`.
    """
    if first is None or keras.backend.backend() != "tensorflow":
        return tensor
    import tensorflow as tf

    with tf.control_dependencies([first]):
        return tf.identity(tensor)
