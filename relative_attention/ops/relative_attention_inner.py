"""tensor2tensor's product of heads with keys or values and with edges."""

from keras import ops

from relative_attention.ops.static_shape import sizes
from relative_attention.tensor_type import Tensor


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
    return _product(x, y, transpose) + edge_product(x, z, transpose)


def edge_product(x: Tensor, z: Tensor, transpose: bool) -> Tensor:
    """Computes the part of `relative_attention_inner` that edges add.

    Args:
        x: float tensor `(B, N, T, H)` with `transpose`, else `(B, N, T, S)`.
        z: float tensor `(T, S, H)` or `(N, T, S, H)`.
        transpose: A boolean to indicate whether to swap the last two axes of
            `z`.

    Returns:
        Float tensor `(B, N, T, S)` with `transpose`, else `(B, N, T, H)`.

    Raises:
        ValueError: if `z` has neither three nor four axes.
    """
    rank = len(z.shape)
    if rank not in (3, 4):
        raise ValueError(
            "`z` must have shape (T, S, H), shared by the heads, or "
            f"(N, T, S, H), one per head. Received shape: {tuple(z.shape)}."
        )
    batch_size, num_heads, length, width = sizes(x)
    if rank == 4:
        by_position = ops.transpose(x, (1, 2, 0, 3))  # (N, T, B, .)
        product = _product(by_position, z, transpose)
        return ops.transpose(product, (2, 0, 1, 3))
    by_position = ops.reshape(
        ops.transpose(x, (2, 0, 1, 3)),
        (length, batch_size * num_heads, width),
    )
    product = _product(by_position, z, transpose)  # (T, B * N, .)
    # Said in full, since of an empty batch no size can be inferred.
    product = ops.reshape(
        product, (length, batch_size, num_heads, sizes(product)[-1])
    )
    return ops.transpose(product, (1, 2, 0, 3))


def _product(a: Tensor, b: Tensor, transpose_b: bool) -> Tensor:
    return ops.matmul(a, ops.swapaxes(b, -1, -2) if transpose_b else b)
