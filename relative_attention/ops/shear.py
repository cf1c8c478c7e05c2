"""Between the distances of a block of queries and the keys around it."""

from keras import ops


def shear(by_distance, has_future=True):
    """Move what belongs to a distance to the key at that distance.

    Row `r` is moved `r` to the right, by padding, flattening and cutting:
    nothing is gathered (the trick of Huang et al. 2018, section 3.4.1, for
    distances that are clipped). The keys are those from `K` before the
    block's first query to `K` after its last.

    Args:
        by_distance: tensor `(B, N, C, 2K + 1)`, column `K + d` for distance
            `d`.
        has_future: bool. Whether keys beyond `K` get what belongs to `K`.
            Defaults to `True`; otherwise they get zeros.

    Returns:
        Tensor `(B, N, C, C + 2K)`. Keys farther back than `K` have zeros.
    """
    num_heads = by_distance.shape[1]
    batch_size, _, length, num_distances = ops.shape(by_distance)
    width = length + num_distances - 1
    farthest = by_distance[..., -1:]
    if not has_future:
        farthest = ops.zeros_like(farthest)
    padded = ops.concatenate(
        [
            by_distance,
            ops.broadcast_to(farthest, (batch_size, num_heads, length, length)),
        ],
        axis=-1,
    )
    flat = ops.reshape(padded, (batch_size, num_heads, length * (width + 1)))
    by_key = ops.reshape(
        flat[:, :, : length * width], (batch_size, num_heads, length, width)
    )
    if not has_future:
        return by_key
    # What a row is padded with, the row below has where it begins.
    is_own = ops.arange(width)[None] >= ops.arange(length)[:, None]
    return by_key * ops.cast(is_own, by_key.dtype)


def unshear(by_key, num_distances, has_future=True):
    """The transpose of `shear`: sums over the keys of a distance.

    Args:
        by_key: tensor `(B, N, C, C + 2K)`.
        num_distances: int, `2K + 1`.
        has_future: see `shear`.

    Returns:
        Tensor `(B, N, C, 2K + 1)`.
    """
    num_heads = by_key.shape[1]
    batch_size, _, length, width = ops.shape(by_key)
    flat = ops.reshape(by_key, (batch_size, num_heads, length * width))
    flat = ops.pad(flat, ((0, 0), (0, 0), (0, length)))
    by_distance = ops.reshape(flat, (batch_size, num_heads, length, width + 1))[
        ..., :num_distances
    ]
    if not has_future:
        return by_distance
    # Keys beyond `K`: from column `2K + 1` on, right of the diagonal.
    positions = ops.arange(length)
    is_beyond = positions[None, :-1] >= positions[:, None]
    beyond = ops.sum(
        by_key[..., num_distances:] * ops.cast(is_beyond, by_key.dtype),
        axis=-1,
        keepdims=True,
    )
    return ops.concatenate(
        [by_distance[..., :-1], by_distance[..., -1:] + beyond], axis=-1
    )
