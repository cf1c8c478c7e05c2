"""The equations of attention with relations (Shaw et al. 2018), one by one.

This is tensor2tensor's method, which makes an embedding for every pair of query
and key. It is the reference in tests. `relative_attention.py` computes the same
for clipped distances without such a tensor.
"""

from collections.abc import Callable

from keras import ops

from relative_attention.ops.backend import matmul
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import static_shape
from relative_attention.ops.backend import widened
from relative_attention.ops.masks import hide_masked
from relative_attention.tensor_type import Tensor


def clipped_relative_positions(
    query_positions: Tensor, key_positions: Tensor, max_relative_position: int
) -> Tensor:
    """Computes the relative position of every key to every query.

    Shaw et al. (2018), section 3.2: the distance `j - i` from query `i` to
    key `j`, clipped to `[-K, K]`, plus `K`, so that it indexes a table of
    `2K + 1` relation embeddings. Row `K` is distance zero.

    It takes positions, not lengths, so it serves both training (all positions)
    and cached decoding (one query at an absolute position).

    Args:
        query_positions: int tensor `(T,)`, absolute positions in tokens.
        key_positions: int tensor `(S,)`, absolute positions in tokens.
        max_relative_position: int. Clipping distance `K`, in tokens.

    Returns:
        int32 tensor `(T, S)` with values in `[0, 2K]`.

    Raises:
        ValueError: if `max_relative_position` is negative.

    Example:
    >>> positions = np.arange(3)
    >>> edges = ra.clipped_relative_positions(positions, positions, 1)
    >>> keras.ops.convert_to_numpy(edges).tolist()
    [[1, 2, 2], [0, 1, 2], [0, 0, 1]]

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), section 3.2
    """
    if max_relative_position < 0:
        raise ValueError(
            "`max_relative_position` must be a non-negative int (tokens on "
            "either side). Received: "
            f"max_relative_position={max_relative_position}."
        )
    query_positions = ops.cast(query_positions, "int32")
    key_positions = ops.cast(key_positions, "int32")
    distance = key_positions[None, :] - query_positions[:, None]
    clipped = ops.clip(distance, -max_relative_position, max_relative_position)
    return ops.cast(clipped, "int32") + max_relative_position


def masked_softmax(
    logits: Tensor,
    mask: Tensor | None = None,
    softmax: Callable[[Tensor], Tensor] = ops.softmax,
) -> Tensor:
    """Computes attention scores: softmax over the keys that are not masked.

    Half-precision inputs are cast to float32 first: in float16, -1e9 is -inf.

    Args:
        logits: float tensor `(B, N, T, S)`.
        mask: bool tensor of four axes that broadcasts to the shape of
            `logits`; `True` = may attend. Defaults to `None`, every key.
        softmax: function of a float tensor, over its last axis. Defaults to
            `keras.ops.softmax`.

    Returns:
        Tensor of the shape and dtype of `logits`. A row in which every key
        is masked is all zeros.
    """
    scores = softmax_over_keys(logits, mask, softmax)
    if mask is None:
        return scores
    # Without this a fully masked row would attend to every key equally.
    any_key = ops.any(mask, axis=-1, keepdims=True)
    return scores * ops.cast(any_key, scores.dtype)


def softmax_over_keys(
    logits: Tensor,
    mask: Tensor | None,
    softmax: Callable[[Tensor], Tensor] = ops.softmax,
) -> Tensor:
    """Computes `masked_softmax`, but a fully masked row attends to all keys."""
    dtype = logits.dtype
    logits = widened(logits)
    # Keras warns of a softmax over one key, which the first step of decoding
    # has.
    if logits.shape[-1] == 1:
        softmax = _softmax_of_one
    if mask is not None:
        logits = hide_masked(logits, mask)
    return ops.cast(softmax(logits), dtype)


def _softmax_of_one(logits: Tensor) -> Tensor:
    # `exp(0) = 1`. Written like this, its gradient is 0 and not missing.
    return ops.exp(logits - logits)


def relative_attention_inner(
    x: Tensor, y: Tensor, z: Tensor, transpose: bool
) -> Tensor:
    """Multiplies `x` by `y` and, position by position, by `z`; adds the two.

    Both sums of the mechanism have this form. The logits of eq. 5 are the
    queries times the keys plus the queries times the key relations
    (`transpose=True`); the outputs of eq. 3 are the attention scores times
    the values plus the scores times the value relations (`transpose=False`).
    As in tensor2tensor's `_relative_attention_inner`, the second product is
    one matrix product per query position, over all sentences and heads at
    once: `z` is not copied per sentence.

    Args:
        x: float tensor `(B, N, T, H)` with `transpose`, else `(B, N, T, S)`.
        y: float tensor `(B, N, S, H)`.
        z: float tensor `(T, S, H)`, shared by the heads, or `(N, T, S, H)`,
            one per head.
        transpose: A boolean to indicate whether to swap the last two axes of
            `y` and `z` before the products.

    Returns:
        Float tensor `(B, N, T, S)` with `transpose`, else `(B, N, T, H)`.

    Raises:
        ValueError: if `z` has neither three nor four axes.

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), section 3.3
    """
    return plain_product(x, y, transpose) + edge_product(x, z, transpose)


def edge_product(x: Tensor, z: Tensor, transpose: bool) -> Tensor:
    """Computes the term of `relative_attention_inner` that has the edges."""
    rank = len(z.shape)
    if rank not in (3, 4):
        raise ValueError(
            "`z` must have shape (T, S, H), shared by the heads, or "
            f"(N, T, S, H), one per head. Received shape: {tuple(z.shape)}."
        )
    batch_size, num_heads, length, width = sizes(x)
    if rank == 4:
        by_position = ops.transpose(x, (1, 2, 0, 3))  # (N, T, B, .)
        product = plain_product(by_position, z, transpose)
        return ops.transpose(product, (2, 0, 1, 3))
    by_position = ops.reshape(
        ops.transpose(x, (2, 0, 1, 3)),
        (length, batch_size * num_heads, width),
    )
    product = plain_product(by_position, z, transpose)  # (T, B * N, .)
    # All sizes are given, as none can be inferred from an empty batch.
    product = ops.reshape(
        product, (length, batch_size, num_heads, sizes(product)[-1])
    )
    return ops.transpose(product, (1, 2, 0, 3))


def label_logits(query: Tensor, embeddings: Tensor, edges: Tensor) -> Tensor:
    """Computes what labeled edges add to the logits: `q_i a^K_ij` of eq. 4.

    Each query is multiplied by each of the `R` embeddings once, and every edge
    picks its product: no `(T, S, H)` tensor is made.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        embeddings: float tensor `(R, H)`, or `(N, R, H)` per head.
        edges: float tensor `(T, S, R)` or `(B, T, S, R)`, the label of each
            edge as a one-hot vector; all zero where there is none.

    Returns:
        Float tensor `(B, N, T, S)`.
    """
    by_label = table_product(query, ops.swapaxes(embeddings, -1, -2))
    return _pick(by_label, edges, transpose=True)


def label_context(scores: Tensor, embeddings: Tensor, edges: Tensor) -> Tensor:
    """Computes what labeled edges add to the context, `sum_j s_ij a^V_ij`.

    This is the second term of eq. 3. The scores of a query are summed by label,
    and each sum weights the embedding of its label.

    Args:
        scores: float tensor `(B, N, T, S)`.
        embeddings: float tensor `(R, H_v)`, or `(N, R, H_v)` per head.
        edges: as in `label_logits`.

    Returns:
        Float tensor `(B, N, T, H_v)`.
    """
    return table_product(_pick(scores, edges, transpose=False), embeddings)


def _pick(x: Tensor, edges: Tensor, transpose: bool) -> Tensor:
    if len(edges.shape) == 3:
        return edge_product(x, edges, transpose)
    # One graph per sentence.
    product = plain_product(ops.swapaxes(x, 1, 2), edges, transpose)
    return ops.swapaxes(product, 1, 2)


def table_product(x: Tensor, table: Tensor) -> Tensor:
    """Multiplies the vectors of every head by a table of embeddings.

    Args:
        x: float tensor `(B, N, C, I)`.
        table: float tensor `(I, J)`, or `(N, I, J)`, one per head.

    Returns:
        Float tensor `(B, N, C, J)`, of the dtype of `x`.
    """
    # In float32, because the gradient of a table sums over all vectors.
    rows, table = widened(x), widened(table)
    if len(table.shape) == 3 and table.shape[0] > 1:
        return ops.cast(matmul(rows, table), x.dtype)
    # The table of a single head is squeezed: oneDNN in TensorFlow 2.21 computes
    # `(B, 1, C, I) @ (1, I, J)` wrongly. Then one matrix product is enough,
    # for which Keras would need a dozen small operations.
    size, width = table.shape[-2:]
    product = matmul(
        ops.reshape(rows, (-1, size)), ops.reshape(table, (size, width))
    )
    product = ops.reshape(product, (*static_shape(x)[:3], width))
    return ops.cast(product, x.dtype)


def plain_product(a: Tensor, b: Tensor, transpose: bool) -> Tensor:
    """Multiplies matrices, the second one transposed if asked."""
    return matmul(a, ops.swapaxes(b, -1, -2) if transpose else b)
