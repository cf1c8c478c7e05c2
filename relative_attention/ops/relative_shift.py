"""The relative shift: from distances to keys, and its transpose.

A block of `C` queries has keys from `K` before its first query to `K` after
its last, `W = C + 2K` of them. Where the sequence begins or ends there are
fewer, and `margins` says how many are missing before and after.

For `C = 3` and `K = 2`, the shift moves the columns of five distances (`a` is
-2, `c` is 0, `e` is 2; the digit is the query) to `W = 7` keys:

    distance -2 -1  0  1  2          key -2 -1  0  1  2  3  4
    query 0  a0 b0 c0 d0 e0              a0 b0 c0 d0 e0 e0 e0
    query 1  a1 b1 c1 d1 e1      ->       . a1 b1 c1 d1 e1 e1
    query 2  a2 b2 c2 d2 e2               .  . a2 b2 c2 d2 e2

Nothing is gathered. Rows are padded to `W + 1` columns, laid end to end and
cut anew every `W`, so that each begins one column later than the one before:

    a0 b0 c0 d0 e0 e0 e0  .
    a1 b1 c1 d1 e1 e1  .  .      ->      the 3 x 7 above, and ". . ." to cut
    a2 b2 c2 d2 e2  .  .  .

It is the trick of Huang et al. (2018), section 3.4.1, for distances that are
clipped; `skew` is the same for those that are not.
"""

from keras import ops

from relative_attention.ops.static_shape import sizes
from relative_attention.tensor_type import Tensor


def relative_shift(
    by_distance: Tensor,
    margins: tuple[int, int] = (0, 0),
    has_future: bool = True,
) -> Tensor:
    """Moves what belongs to a distance to the key at that distance.

    Args:
        by_distance: tensor `(B, N, C, 2K + 1)`, column `K + d` for distance
            `d`.
        margins: pair of ints, the number of keys that are missing before and
            after.
        has_future: A boolean to indicate whether keys beyond `K` get what
            belongs to `K`. Defaults to `True`; otherwise they get zeros.

    Returns:
        Tensor `(B, N, C, W)` less the margins. Keys farther back than `K` have
        zeros.
    """
    num_heads = by_distance.shape[1]
    batch_size, _, length, num_distances = sizes(by_distance)
    width = length + num_distances - 1
    if has_future:
        # Row `r` has `C - 1 - r` keys beyond `K`; the zeros after them are
        # what row `r + 1` begins with, once the rows are cut anew.
        positions = ops.arange(length, dtype="int32")
        is_beyond = positions[None] < length - 1 - positions[:, None]
        beyond = by_distance[..., -1:] * ops.cast(is_beyond, by_distance.dtype)
        padded = ops.concatenate([by_distance, beyond], axis=-1)
    else:
        padded = ops.pad(by_distance, ((0, 0), (0, 0), (0, 0), (0, length)))
    flat = ops.reshape(padded, (batch_size, num_heads, length * (width + 1)))
    by_key = ops.reshape(
        flat[:, :, : length * width], (batch_size, num_heads, length, width)
    )
    if not any(margins):
        return by_key
    num_before, num_after = margins
    return by_key[..., num_before : width - num_after]


def transposed_relative_shift(
    by_key: Tensor,
    num_distances: int,
    margins: tuple[int, int] = (0, 0),
    has_future: bool = True,
) -> Tensor:
    """Sums over the keys of each distance: the transpose of `relative_shift`.

    It is the gradient of `relative_shift`, and gathers the scores of a query
    by distance for the product with the value relations.

    Args:
        by_key: tensor `(B, N, C, W)` less the margins.
        num_distances: int, `2K + 1`.
        margins: see `relative_shift`.
        has_future: see `relative_shift`.

    Returns:
        Tensor `(B, N, C, 2K + 1)`.
    """
    num_heads = by_key.shape[1]
    batch_size, _, length, _ = sizes(by_key)
    width = length + num_distances - 1
    padded, is_long_enough = by_key, False
    if any(margins):
        num_more = 0
        if isinstance(length, int) and num_distances <= length:
            # Padded below as well, `W + 1` rows of `W` are as many numbers as
            # `W` rows of `W + 1`: no second padding is needed.
            num_more = num_distances
            is_long_enough = True
        padded = ops.pad(by_key, ((0, 0), (0, 0), (0, num_more), margins))
    flat = padded
    if not is_long_enough:
        flat = ops.reshape(padded, (batch_size, num_heads, length * width))
        flat = ops.pad(flat, ((0, 0), (0, 0), (0, length)))
    # In rows of `W + 1` each begins one column earlier than it did in rows of
    # `W`, which undoes the shift.
    num_rows = width if is_long_enough else length
    by_distance = ops.reshape(
        flat, (batch_size, num_heads, num_rows, width + 1)
    )[:, :, :length, :num_distances]
    if not has_future:
        return by_distance
    # Keys beyond `K`, from column `2K + 1` on and right of the diagonal there,
    # are all of distance `K`.
    beyond = padded[:, :, :length, num_distances:]
    positions = ops.arange(length, dtype="int32")
    is_beyond = positions[None, :-1] >= positions[:, None]
    beyond = ops.sum(
        beyond * ops.cast(is_beyond, by_key.dtype), axis=-1, keepdims=True
    )
    return ops.concatenate(
        [by_distance[..., :-1], by_distance[..., -1:] + beyond], axis=-1
    )
