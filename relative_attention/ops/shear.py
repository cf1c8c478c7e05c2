"""Between the distances of a block of queries and the keys around it.

A block of `C` queries has keys from `K` before its first to `K` after its last,
`W = C + 2K`; where the sequence begins or ends there are fewer, and `margins`
says how many are missing before and after.
"""

from keras import ops


def shear(by_distance, margins=(0, 0), has_future=True):
    """Move what belongs to a distance to the key at that distance.

    Row `r` is moved `r` to the right, by padding, flattening and cutting:
    nothing is gathered (the trick of Huang et al. 2018, section 3.4.1, for
    distances that are clipped).

    Args:
        by_distance: tensor `(B, N, C, 2K + 1)`, column `K + d` for distance
            `d`.
        margins: pair of ints. Keys missing before and after.
        has_future: bool. Whether keys beyond `K` get what belongs to `K`.
            Defaults to `True`; otherwise they get zeros.

    Returns:
        Tensor `(B, N, C, W)` less the margins. Keys farther back than `K` have
        zeros.
    """
    num_heads = by_distance.shape[1]
    batch_size, _, length, num_distances = ops.shape(by_distance)
    width = length + num_distances - 1
    if has_future:
        # What would be cut off a row, the row below has where it begins.
        positions = ops.arange(length, dtype="int32")
        is_kept = positions[None] < length - 1 - positions[:, None]
        beyond = by_distance[..., -1:] * ops.cast(is_kept, by_distance.dtype)
        padded = ops.concatenate([by_distance, beyond], axis=-1)
    else:
        padded = ops.pad(by_distance, ((0, 0), (0, 0), (0, 0), (0, length)))
    flat = ops.reshape(padded, (batch_size, num_heads, length * (width + 1)))
    by_key = ops.reshape(
        flat[:, :, : length * width], (batch_size, num_heads, length, width)
    )
    if not any(margins):
        return by_key
    before, after = margins
    return by_key[..., before : width - after]


def unshear(by_key, num_distances, margins=(0, 0), has_future=True):
    """The transpose of `shear`: sums over the keys of a distance.

    Args:
        by_key: tensor `(B, N, C, W)` less the margins.
        num_distances: int, `2K + 1`.
        margins: see `shear`.
        has_future: see `shear`.

    Returns:
        Tensor `(B, N, C, 2K + 1)`.
    """
    num_heads = by_key.shape[1]
    batch_size, _, length, _ = ops.shape(by_key)
    width = length + num_distances - 1
    padded, num_more = by_key, 0
    if any(margins):
        if isinstance(length, int) and num_distances <= length:
            # With so many rows more, flattening needs no second padding.
            num_more = num_distances
        padded = ops.pad(by_key, ((0, 0), (0, 0), (0, num_more), margins))
    flat = padded
    if not num_more:
        flat = ops.reshape(padded, (batch_size, num_heads, length * width))
        flat = ops.pad(flat, ((0, 0), (0, 0), (0, length)))
    num_rows = width if num_more else length
    by_distance = ops.reshape(
        flat, (batch_size, num_heads, num_rows, width + 1)
    )[:, :, :length, :num_distances]
    if not has_future:
        return by_distance
    # Keys beyond `K`: from column `2K + 1` on, right of the diagonal.
    beyond = padded[:, :, :length, num_distances:]
    positions = ops.arange(length, dtype="int32")
    is_beyond = positions[None, :-1] >= positions[:, None]
    beyond = ops.sum(
        beyond * ops.cast(is_beyond, by_key.dtype), axis=-1, keepdims=True
    )
    return ops.concatenate(
        [by_distance[..., :-1], by_distance[..., -1:] + beyond], axis=-1
    )
