"""Attention of the few queries that a decoding step has.

The hypotheses of a sentence are so many queries of the same keys. TensorFlow's
product of a batch of matrices is slow on CPUs where one of the two has a few
rows and the other over a hundred: on two cores, products of vectors with a
matrix are 2 to 6 times as fast from 128 keys on, and up to 64 keys as fast
(`benchmarks/decoding/step_products.py`).
"""

import keras
from keras import ops

from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.own_kernels import prefers_own_kernels
from relative_attention.tensor_type import Tensor


def step_logits(query: Tensor, key: Tensor) -> Tensor:
    """Computes `attention_logits` of few queries.

    Args:
        query: float tensor `(B, N, M, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, S, H)`.

    Returns:
        Float tensor `(B, N, M, S)`.
    """
    if not _one_by_one(query):
        return attention_logits(query, key)
    # `(B, N, M, 1, H) @ (B, N, 1, H, S)`.
    products = ops.matmul(
        ops.expand_dims(query, 3),
        ops.swapaxes(ops.expand_dims(key, 2), -1, -2),
    )
    return ops.squeeze(products, 3)


def step_context(scores: Tensor, value: Tensor) -> Tensor:
    """Computes `attention_context` of few queries.

    Args:
        scores: float tensor `(B, N, M, S)`.
        value: float tensor `(B, N, S, H_v)`.

    Returns:
        Float tensor `(B, N, M, H_v)`.
    """
    if not _one_by_one(scores):
        return attention_context(scores, value)
    # `(B, N, M, 1, S) @ (B, N, 1, S, H_v)`.
    products = ops.matmul(ops.expand_dims(scores, 3), ops.expand_dims(value, 2))
    return ops.squeeze(products, 3)


def _one_by_one(queries: Tensor) -> bool:
    """Returns whether each query is to be multiplied by itself."""
    # Measured with TensorFlow on CPUs alone.
    if keras.backend.backend() != "tensorflow" or not prefers_own_kernels():
        return False
    # A single one is a vector already.
    return queries.shape[2] != 1
