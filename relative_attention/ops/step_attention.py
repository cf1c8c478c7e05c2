"""Attention of the few queries that a step of decoding has.

The hypotheses of a sentence are so many queries of the same keys. TensorFlow's
product of a batch of matrices is slow where one of the two has a few rows and
the other over a hundred: on two cores, products of vectors with a matrix are 2
to 6 times as fast from 128 keys on, and up to 64 keys as fast
(`benchmarks/few_rows.py`).
"""

import keras
from keras import ops

from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits


def step_logits(query, key):
    """`attention_logits` of few queries.

    Args:
        query: float tensor `(B, N, M, H)`, scaled.
        key: float tensor `(B, N, S, H)`.

    Returns:
        Float tensor `(B, N, M, S)`.
    """
    if not _one_by_one(query):
        return attention_logits(query, key)
    products = ops.matmul(
        ops.expand_dims(query, 3),
        ops.swapaxes(ops.expand_dims(key, 2), -1, -2),
    )
    return ops.squeeze(products, 3)


def step_context(scores, value):
    """`attention_context` of few queries.

    Args:
        scores: float tensor `(B, N, M, S)`.
        value: float tensor `(B, N, S, H_v)`.

    Returns:
        Float tensor `(B, N, M, H_v)`.
    """
    if not _one_by_one(scores):
        return attention_context(scores, value)
    products = ops.matmul(ops.expand_dims(scores, 3), ops.expand_dims(value, 2))
    return ops.squeeze(products, 3)


def _one_by_one(queries):
    """Whether there are several; a single one is a vector already."""
    return keras.backend.backend() == "tensorflow" and queries.shape[2] != 1
