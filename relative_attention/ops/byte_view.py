"""The bytes of integers, without computing anything."""

from keras import ops

from relative_attention.tensor_type import Tensor


def byte_view(words: Tensor) -> Tensor:
    """Reads each word of four bytes as four numbers.

    Args:
        words: int32 tensor `(W, 1)`.

    Returns:
        int8 tensor `(W, 4)`.
    """
    if hasattr(ops, "view"):
        return ops.view(words, "int8")
    # Keras before 3.12. JAX and PyTorch ask for a newer one, see setup.py.
    import tensorflow as tf

    return tf.bitcast(words[:, 0], tf.int8)
