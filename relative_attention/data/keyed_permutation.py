"""Shuffling without holding what is shuffled."""

import numpy as np

_ROUNDS = 3
# The multipliers of SplitMix64, which spread every bit over all others.
_MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_STEP = 0x9E3779B97F4A7C15
# What is added in the two halves of each round, lest they be alike.
_ROUND_KEYS = [
    [np.uint64((2 * number + half) * _STEP % 2**64) for half in range(2)]
    for number in range(_ROUNDS)
]


def keyed_permutation(indices, sizes, keys):
    """Where each index goes in a permutation of its own range.

    For every size and key there is one permutation of `range(size)`, a
    function of the two alone; any of its elements costs the same, whatever
    the size.

    Args:
        indices: int array `(B,)`, each at least 0 and below its size.
        sizes: int array `(B,)`.
        keys: uint64 array `(B,)`.

    Returns:
        Int64 array `(B,)`.

    Reference:
     - [Black and Rogaway, 2002](https://doi.org/10.1007/3-540-45760-7_9):
       Feistel networks, walked until they end in the range.
    """
    values = np.array(indices, np.uint64)
    sizes = np.asarray(sizes, np.uint64)
    keys = np.asarray(keys, np.uint64)
    # The bits that the size takes: the range is more than half of what they
    # can say, so that one step in two, at least, ends in it.
    _, bits = np.frexp(sizes.astype(np.float64) - 0.5)
    bits = np.maximum(bits, 2)
    low = (bits // 2).astype(np.uint64)
    high = bits.astype(np.uint64) - low
    outside = np.arange(len(values))
    while len(outside):
        values[outside] = _encrypt(
            values[outside], low[outside], high[outside], keys[outside]
        )
        outside = outside[values[outside] >= sizes[outside]]
    return values.astype(np.int64)


def _encrypt(values, low, high, keys):
    """A permutation of all numbers of `low + high` bits."""
    low_mask, high_mask = _ones(low), _ones(high)
    left, right = values >> low, values & low_mask
    for first, second in _ROUND_KEYS:
        left = left ^ (_mix(right + (keys + first)) & high_mask)
        right = right ^ (_mix(left + (keys + second)) & low_mask)
    return (left << low) | right


def _ones(bits):
    return (np.uint64(1) << bits) - np.uint64(1)


def _mix(values):
    """Hash of each number."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS):
        values = (values ^ (values >> np.uint64(shift))) * multiplier
    return values ^ (values >> np.uint64(31))
