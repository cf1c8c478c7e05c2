"""Chooses the few lengths to which sentences are padded."""

import numpy as np


def choose_lengths(
    lengths: np.ndarray, counts: np.ndarray, num_lengths: int
) -> np.ndarray:
    """Returns the lengths with which sentences are padded least.

    A sentence is padded to the next of them. Of all ways to choose, this is
    the one with the fewest positions in all, found by dynamic programming:

        best[n][j] = min over i < j of best[n - 1][i] + count(i + 1 .. j) T_j

    where `T_j` is the `j`-th length that occurs, and what `best[n][j]` holds is
    the number of positions of all sentences up to that length, with `n`
    lengths to choose.

    Args:
        lengths: int array of lengths in ascending order, which may repeat.
        counts: int array of the same shape, how many sentences have each.
        num_lengths: int, how many lengths to choose at most.

    Returns:
        Int array `(n,)`, ascending, `n` at most `num_lengths`; the last is
        the greatest of `lengths`.
    """
    values, places = np.unique(lengths, return_inverse=True)
    sums = np.bincount(places, weights=counts).astype(np.int64)
    # Sentences shorter than each length, and in all.
    before = np.concatenate([[0], np.cumsum(sums)])
    size = len(values)
    best = before[1:] * values
    previous: list[np.ndarray] = []
    for _ in range(min(num_lengths, size) - 1):
        following, chosen = best.copy(), np.full(size, -1)
        for end in range(1, size):
            # The length before the last one is any that is shorter.
            padded = (before[end + 1] - before[1 : end + 1]) * values[end]
            totals = best[:end] + padded
            place = int(totals.argmin())
            if totals[place] < following[end]:
                following[end], chosen[end] = totals[place], place
        best = following
        previous.append(chosen)
    ends = [size - 1]
    for chosen in reversed(previous):
        # -1 where fewer lengths do as well.
        if chosen[ends[-1]] >= 0:
            ends.append(int(chosen[ends[-1]]))
    return values[ends[::-1]]
