"""Skewing: the relative shift of a whole sequence, and its inverse."""

from keras import ops

from relative_attention.ops.backend import sizes
from relative_attention.tensor_type import Tensor


def skew(by_distance: Tensor) -> Tensor:
    """Moves what belongs to a distance to the key at that distance.

    It is the trick of Huang et al. (2018), section 3.4.1, with any number `F`
    of distances into the future: pad, flatten, cut, reshape. Nothing is
    gathered and nothing of the size `(T, T, H)` is made. For two queries and
    `F = 1` (`a` is -1, `b` is 0, `c` is 1; the digit is the query):

        a0 b0 c0      ->      b0 c0
        a1 b1 c1              a1 b1

    Args:
        by_distance: tensor `(B, N, T, T + F)`. Column `c` belongs to the
            distance `c - (T - 1)`, so the last to `F`.

    Returns:
        Tensor `(B, N, T, T)` with `[i, j]` from distance `j - i`; where
        `j - i > F` it holds nothing of use.
    """
    batch_size, num_heads, length, width = sizes(by_distance)
    # Each row one longer: in the flat order, key 0 of row `i` then stands
    # `width` after key 0 of the row before.
    flat = ops.reshape(
        ops.pad(by_distance, ((0, 0), (0, 0), (0, 0), (0, 1))),
        (batch_size, num_heads, length * (width + 1)),
    )
    start = length - 1
    flat = flat[:, :, start : start + length * width]
    by_key = ops.reshape(flat, (batch_size, num_heads, length, width))
    return by_key[:, :, :, :length]


def unskew(by_key: Tensor, reach: int | Tensor) -> Tensor:
    """Moves what belongs to a key to its distance: the inverse of `skew`.

    Args:
        by_key: tensor `(B, N, T, T)`, zero where `j - i > reach`.
        reach: int `F`, the greatest distance into the future.

    Returns:
        Tensor `(B, N, T, T + F)`, zero for distances to no key.
    """
    batch_size, num_heads, length, _ = sizes(by_key)
    width = length + reach
    padded = ops.pad(by_key, ((0, 0), (0, 0), (0, 0), (0, reach)))
    flat = ops.reshape(padded, (batch_size, num_heads, length * width))
    flat = ops.pad(flat, ((0, 0), (0, 0), (length, 0)))
    by_distance = ops.reshape(flat, (batch_size, num_heads, length, width + 1))
    return by_distance[:, :, :, 1:]
