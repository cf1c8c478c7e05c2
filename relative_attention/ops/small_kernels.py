"""Products and softmax of small tensors, for TensorFlow on CPUs.

On processors with AVX-512 TensorFlow hands products of batches of matrices,
softmax and others to oneDNN. That is the faster for large tensors; for small
ones a call costs more than what it computes. The operations here are left to
TensorFlow's own kernels, on every processor.
"""

import keras
from keras import ops

from relative_attention.tensor_type import Tensor


def small_product(x: Tensor, y: Tensor, transpose_y: bool = False) -> Tensor:
    """Computes `x @ y` of the last two axes; the others are broadcast.

    Args:
        x: float tensor `(..., M, I)`.
        y: float tensor `(..., I, J)`, or `(..., J, I)` if it is transposed.
        transpose_y: A boolean to indicate whether the last two axes of `y`
            change places. Defaults to `False`.

    Returns:
        Float tensor `(..., M, J)`.
    """
    import tensorflow as tf

    if keras.backend.standardize_dtype(x.dtype) == "float16":
        # Which the kernel below does not know.
        return tf.linalg.matmul(x, y, transpose_b=transpose_y)
    # The same product as `tf.linalg.matmul`, which is `BatchMatMulV2`; oneDNN
    # takes that one over, and not this.
    return tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=x.dtype, adj_y=transpose_y)


def small_softmax(logits: Tensor) -> Tensor:
    """Computes a softmax over the last axis.

    Args:
        logits: float tensor `(..., S)`.

    Returns:
        Float tensor of the same shape.
    """
    exponentials = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))
    return exponentials / ops.sum(exponentials, axis=-1, keepdims=True)
