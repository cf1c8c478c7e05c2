"""Attention of the few queries that a decoding step has.

The hypotheses of a sentence are so many queries of the same keys. In a step
they stand before the heads, `(B, M, N, H)`, as projections make them and take
them: moving axes costs as much as the products.

TensorFlow's own product of a batch of matrices is slow on CPUs where one of the
two has a few rows and the other over a hundred: on two cores, products of
vectors with a matrix are 2.5 to 5 times as fast from 128 keys on, and of 16
keys as fast. Where oneDNN computes products and softmax, as on processors with
AVX-512, each call costs some 50 microseconds before it begins, and a step of
one sentence was half calls: `small_kernels.py` has both without it. For a
thousand vectors and more than a hundred keys oneDNN is the faster, 1.2 times
at 128 keys and 1.8 at 512, of what is then a small part of a step.
`benchmarks/decoding/step_products.py` measures all this.
"""

import keras
from keras import ops

from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.own_kernels import prefers_own_kernels
from relative_attention.ops.small_kernels import small_product
from relative_attention.ops.small_kernels import small_softmax
from relative_attention.tensor_type import Tensor


def step_product(
    vectors: Tensor, matrices: Tensor, transpose: bool = False
) -> Tensor:
    """Multiplies each vector by the matrix of its sentence and head.

    With keys, transposed, these are the logits of eq. 2 of Shaw et al. (2018),
    with values the context vectors of eq. 1.

    Args:
        vectors: float tensor `(B, M, N, I)`.
        matrices: float tensor `(B, N, I, J)`, `(B, N, J, I)` if transposed;
            `B` may be 1.
        transpose: A boolean to indicate whether the matrices are transposed.
            Defaults to `False`.

    Returns:
        Float tensor `(B, M, N, J)`.
    """
    if _has_small_kernels():
        # `(B, M, N, 1, I) @ (B, 1, N, I, J)`.
        products = small_product(
            ops.expand_dims(vectors, 3),
            ops.expand_dims(matrices, 1),
            transpose_y=transpose,
        )
        return ops.squeeze(products, 3)
    if transpose:
        matrices = ops.swapaxes(matrices, -1, -2)
    products = ops.matmul(ops.swapaxes(vectors, 1, 2), matrices)
    return ops.swapaxes(products, 1, 2)


def step_scores(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Computes `masked_softmax` of the logits of few queries.

    Args:
        logits: float tensor `(B, M, N, S)`.
        mask: bool tensor of four axes that broadcasts to the shape of
            `logits`; `True` = may attend. Defaults to `None`, every key.

    Returns:
        Tensor of the shape and dtype of `logits`.
    """
    if not _has_small_kernels():
        return masked_softmax(logits, mask)
    return masked_softmax(logits, mask, softmax=small_softmax)


def _has_small_kernels() -> bool:
    # Measured with TensorFlow on CPUs alone.
    return keras.backend.backend() == "tensorflow" and prefers_own_kernels()
