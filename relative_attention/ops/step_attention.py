"""Attention of the few queries that a decoding step has.

All hypotheses of a sentence are queries to the same keys. Their axis is before
that of the heads, `(B, M, N, H)`, as in the projections: moving axes costs as
much as the products.

On CPUs, TensorFlow's batched matrix product is slow if one matrix has few rows
and the other over a hundred. On two cores, products of vectors with a matrix
are 2.5 to 5 times as fast from 128 keys on, and equally fast for 16 keys. On
processors with AVX-512, where oneDNN computes products and softmax, each call
has an overhead of some 50 microseconds, which was half the time of a step of
one sentence. So the small kernels below bypass oneDNN. For a thousand vectors
and more than a hundred keys oneDNN is faster, 1.2 times at 128 keys and 1.8 at
512, but these products are then a small part of a step.
`benchmarks/decoding/step_products.py` of commit 4be2021 measured this.
"""

import keras
from keras import ops

from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.attention import table_product
from relative_attention.ops.backend import has_own_kernels
from relative_attention.ops.backend import matmul
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import start_indices
from relative_attention.tensor_type import Tensor


def step_product(
    vectors: Tensor, matrices: Tensor, transpose: bool = False
) -> Tensor:
    """Multiplies each vector by the matrix of its sentence and head.

    With transposed keys, these are the logits of eq. 2 of Shaw et al. (2018);
    with values, the context vectors of eq. 1.

    Args:
        vectors: float tensor `(B, M, N, I)`.
        matrices: float tensor `(B, N, I, J)`, `(B, N, J, I)` if transposed;
            `B` may be 1.
        transpose: A boolean to indicate whether the matrices are transposed.
            Defaults to `False`.

    Returns:
        Float tensor `(B, M, N, J)`.
    """
    if has_own_kernels():
        # `(B, M, N, 1, I) @ (B, 1, N, I, J)`.
        products = _small_product(
            ops.expand_dims(vectors, 3),
            ops.expand_dims(matrices, 1),
            transpose_y=transpose,
        )
        return ops.squeeze(products, 3)
    if transpose:
        matrices = ops.swapaxes(matrices, -1, -2)
    products = matmul(ops.swapaxes(vectors, 1, 2), matrices)
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
    if not has_own_kernels():
        return masked_softmax(logits, mask)
    return masked_softmax(logits, mask, softmax=_small_softmax)


def _small_product(x: Tensor, y: Tensor, transpose_y: bool) -> Tensor:
    import tensorflow as tf

    if keras.backend.standardize_dtype(x.dtype) == "float16":
        # The kernel below has no float16.
        return tf.linalg.matmul(x, y, transpose_b=transpose_y)
    # The same product as `tf.linalg.matmul`, which is `BatchMatMulV2`; oneDNN
    # takes over that one, and not this.
    return tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=x.dtype, adj_y=transpose_y)


def _small_softmax(logits: Tensor) -> Tensor:
    exponentials = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))
    return exponentials / ops.sum(exponentials, axis=-1, keepdims=True)


# Relative to the farthest distance, only the last `K` positions have relations.
# So their cost in a step of decoding does not grow with the decoded length.


def last_relation_logits(
    query: Tensor,
    relations: Tensor,
    position: int | Tensor,
    num_positions: int | Tensor,
) -> Tensor:
    """Computes what relations add to the logits of one position, eq. 5.

    Args:
        query: float tensor `(B, M, N, H)`: `M` queries at `position`, scaled.
        relations: float tensor `(K, H)` or `(N, K, H)`: edges to the last
            `K` positions, up to `position`.
        position: int scalar, absolute, 0 first.
        num_positions: int scalar `P`, the number of keys.

    Returns:
        Float tensor `(B, M, N, P)`, zero except at the last `K` positions up to
        `position`.
    """
    logits = _table_product(query, ops.swapaxes(relations, -1, -2))
    # Cut from the middle: zeros, the last `K` positions, zeros.
    padding = ((0, 0), (0, 0), (0, 0), (num_positions, num_positions))
    first = num_positions + relations.shape[-2] - 1 - position
    return _columns(ops.pad(logits, padding), first, num_positions)


def last_relation_context(
    scores: Tensor, relations: Tensor, position: int | Tensor
) -> Tensor:
    """Computes what relations add to the context of one position, eq. 3.

    Args:
        scores: float tensor `(B, M, N, P)`.
        relations: float tensor `(K, H_v)` or `(N, K, H_v)`.
        position: int scalar, absolute, 0 first.

    Returns:
        Float tensor `(B, M, N, H_v)`.
    """
    num_relations = relations.shape[-2]
    padding = ((0, 0), (0, 0), (0, 0), (num_relations, 0))
    last = _columns(ops.pad(scores, padding), position + 1, num_relations)
    return _table_product(last, relations)


def _columns(x: Tensor, first: int | Tensor, count: int | Tensor) -> Tensor:
    # Slice by size, not by end: XLA only knows the size.
    return ops.slice(x, start_indices(0, 0, 0, first), (*sizes(x)[:3], count))


def _table_product(vectors: Tensor, table: Tensor) -> Tensor:
    if len(table.shape) == 3:
        # One table per head.
        return step_product(vectors, table[None])
    return table_product(vectors, table)
