"""The index of each edge in a table of relation embeddings."""

from keras import ops

from relative_attention.tensor_type import Tensor


def clipped_relative_positions(
    query_positions: Tensor, key_positions: Tensor, max_relative_position: int
) -> Tensor:
    """Computes the relative position of every key as seen from every query.

    Shaw et al. (2018), section 3.2: the distance `j - i` from query `i` to
    key `j`, clipped to `[-K, K]`, plus `K`, so that it indexes a table of
    `2K + 1` relation embeddings. Row `K` stands for distance zero.

    It takes positions, not lengths, so that training (all positions) and
    cached decoding (one query at an absolute position) share it.

    Args:
        query_positions: int tensor `(T,)`, absolute positions in tokens.
        key_positions: int tensor `(S,)`, absolute positions in tokens.
        max_relative_position: int. Clipping distance `K`, in tokens.

    Returns:
        int32 tensor `(T, S)` with values in `[0, 2K]`.

    Raises:
        ValueError: if `max_relative_position` is negative.

    Example:
    >>> clipped_relative_positions(ops.arange(3), ops.arange(3), 1)
    [[1 2 2], [0 1 2], [0 0 1]]

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
