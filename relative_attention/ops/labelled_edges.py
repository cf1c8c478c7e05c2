"""The logits and context vectors of edges that carry one of a few labels."""

from keras import ops

from relative_attention.ops.static_shape import sizes
from relative_attention.ops.table_product import table_product
from relative_attention.tensor_type import Tensor


def label_logits(query: Tensor, embeddings: Tensor, edges: Tensor) -> Tensor:
    """Computes what the labels add to the logits: `q_i a^K_ij` of eq. 4.

    Each query meets each of the `R` embeddings once, then every edge picks:
    no `(T, S, H)` tensor is made.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        embeddings: float tensor `(R, H)`, or `(N, R, H)` per head.
        edges: float tensor `(T, S, R)` or `(B, T, S, R)`, the label of each
            edge as a one-hot vector; all zero where there is none.

    Returns:
        Float tensor `(B, N, T, S)`.
    """
    by_label = table_product(query, ops.swapaxes(embeddings, -1, -2))
    return _by_query(by_label, ops.swapaxes(edges, -1, -2))


def label_context(scores: Tensor, embeddings: Tensor, edges: Tensor) -> Tensor:
    """Computes what the labels add to the context: `sum_j s_ij a^V_ij`, eq. 3.

    The scores of the edges of a query are summed by label, and each label's
    embedding is weighted by its sum.

    Args:
        scores: float tensor `(B, N, T, S)`.
        embeddings: float tensor `(R, H_v)`, or `(N, R, H_v)` per head.
        edges: as in `label_logits`.

    Returns:
        Float tensor `(B, N, T, H_v)`.
    """
    return table_product(_by_query(scores, edges), embeddings)


def _by_query(rows: Tensor, matrices: Tensor) -> Tensor:
    """Multiplies rows `(B, N, T, X)` by a matrix `(X, Y)` for each query."""
    if len(matrices.shape) == 4:
        product = ops.matmul(ops.transpose(rows, (0, 2, 1, 3)), matrices)
        return ops.transpose(product, (0, 2, 1, 3))
    # The same for all sentences: one product over sentences and heads.
    batch_size, num_heads, length, width = sizes(rows)
    by_query = ops.reshape(
        ops.transpose(rows, (2, 0, 1, 3)),
        (length, batch_size * num_heads, width),
    )
    # Said in full, since of an empty batch no size can be inferred.
    product = ops.reshape(
        ops.matmul(by_query, matrices),
        (length, batch_size, num_heads, sizes(matrices)[-1]),
    )
    return ops.transpose(product, (1, 2, 0, 3))
