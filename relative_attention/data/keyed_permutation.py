"""Permutes ranges of any size by a key, one element at a time.

`tf.random.experimental.index_shuffle` does the same, but needs TensorFlow. It
also draws other permutations, so older runs would resume with other batches.
"""

import numpy as np

# With three rounds, all orders of a range are about equally frequent.
_ROUNDS = 3
# The multipliers of SplitMix64, which spread every bit over all others.
_MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_STEP = 0x9E3779B97F4A7C15
# The difference between the keys of neighboring ranges: odd, so that no two
# keys are equal, and with bits well mixed, so that no two are similar.
_KEY_STEP = np.uint64(0xD1342543DE82EF95)
# Added to the key in the two halves of each round, so that they differ.
_ROUND_KEYS = [
    [np.uint64((2 * number + half) * _STEP % 2**64) for half in range(2)]
    for number in range(_ROUNDS)
]


def keyed_permutation(
    indices: np.ndarray, sizes: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Permutes each index within its own range.

    Each size and key define one permutation of `range(size)`. Computing one of
    its elements takes the same time for all sizes.

    Args:
        indices: int array `(B,)`, each at least 0 and below its size.
        sizes: int array `(B,)`. Size of the range of each index.
        keys: uint64 array `(B,)`. Key of the permutation of each range.

    Returns:
        Int64 array `(B,)`.

    Reference:
     - [Black and Rogaway, 2002](https://doi.org/10.1007/3-540-45760-7_9):
       Feistel networks, repeated until the result is in the range.
    """
    values = np.array(indices, np.uint64)
    sizes = np.asarray(sizes, np.uint64)
    keys = np.asarray(keys, np.uint64)
    # The number of bits of the largest index, and at least one in either half.
    # The size is more than half of all numbers with these bits, so at least
    # every second number is in the range.
    _, bits = np.frexp(sizes.astype(np.float64) - 0.5)
    bits = np.maximum(bits, 2)
    low = (bits // 2).astype(np.uint64)
    high = bits.astype(np.uint64) - low
    # Cycle walking: a permutation of all numbers with these bits, repeated
    # until the result is in the range, is a permutation of the range.
    outside = np.arange(len(values))
    while len(outside):
        values[outside] = _encrypt(
            values[outside], low[outside], high[outside], keys[outside]
        )
        outside = outside[values[outside] >= sizes[outside]]
    return values.astype(np.int64)


def permuted_within(
    starts: np.ndarray, positions: np.ndarray, key: np.uint64
) -> np.ndarray:
    """Shuffles positions within their ranges.

    No range is shuffled as a whole, so the time per position does not depend on
    the sizes.

    Args:
        starts: int array `(num_ranges + 1,)`. Where each range starts, and
            where the last one ends.
        positions: int array `(B,)`, at least 0 and below the last end.
        key: uint64. The permutation of a range depends on it and on the number
            of the range.

    Returns:
        Int64 array `(B,)` of positions.
    """
    ranges = np.searchsorted(starts, positions, "right") - 1
    first = starts[ranges]
    keys = ranges.astype(np.uint64) * _KEY_STEP + key
    return first + keyed_permutation(
        positions - first, starts[ranges + 1] - first, keys
    )


def _encrypt(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Permutes the numbers of `low + high` bits, by a Feistel network.

    Each half round combines one half of the bits with a hash of the other half,
    by exclusive or. The other half is unchanged, so the step can be undone, and
    no two numbers become one.

    Args:
        values: uint64 array `(B,)`.
        low: uint64 array `(B,)`. Number of bits in the lower half.
        high: uint64 array `(B,)`. Number of bits in the upper half.
        keys: uint64 array `(B,)`.

    Returns:
        Uint64 array `(B,)`.
    """
    low_mask, high_mask = _ones(low), _ones(high)
    left, right = values >> low, values & low_mask
    for first, second in _ROUND_KEYS:
        left = left ^ (_mixed_bits(right + (keys + first)) & high_mask)
        right = right ^ (_mixed_bits(left + (keys + second)) & low_mask)
    return (left << low) | right


def _ones(bits: np.ndarray) -> np.ndarray:
    """Returns the numbers whose lowest bits are 1 and whose others are 0."""
    return (np.uint64(1) << bits) - np.uint64(1)


def _mixed_bits(values: np.ndarray) -> np.ndarray:
    """Returns a hash of each number: the last steps of SplitMix64."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS):
        values = (values ^ (values >> np.uint64(shift))) * multiplier
    return values ^ (values >> np.uint64(31))
