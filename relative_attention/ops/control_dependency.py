"""A control dependency: one tensor is computed after another."""

import keras

from relative_attention.tensor_type import Tensor


def run_after(tensor: Tensor, first: Tensor | None) -> Tensor:
    """Returns `tensor`, to be available only once `first` is computed.

    A TensorFlow graph runs whatever is ready; it would compute the logits of
    every block before the first context vector, and hold all of them. On
    other backends this is `tensor` itself: XLA plans its memory, and PyTorch
    computes in the order of the program.

    Args:
        tensor: tensor that is to wait.
        first: tensor to wait for, or `None` for no waiting.

    Returns:
        Tensor equal to `tensor`.
    """
    if first is None or keras.backend.backend() != "tensorflow":
        return tensor
    import tensorflow as tf

    with tf.control_dependencies([first]):
        # A control dependency holds for operations made within it; the
        # identity is one that everything made of the result has to wait for.
        return tf.identity(tensor)
