"""The lengths that pad least, against all that there are."""

import itertools

import numpy as np
import pytest

from relative_attention.data.fixed_lengths import choose_lengths


def num_positions(lengths, counts, chosen):
    return sum(
        count * min(size for size in chosen if size >= length)
        for length, count in zip(lengths, counts)
    )


def least_positions(lengths, counts, num_lengths):
    """The least that any choice of so many lengths needs."""
    *shorter, longest = sorted(set(lengths))
    return min(
        num_positions(lengths, counts, {*some, longest})
        for size in range(num_lengths)
        for some in itertools.combinations(shorter, size)
    )


@pytest.mark.parametrize("num_lengths", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_chosen_lengths_pad_least(seed, num_lengths):
    random = np.random.default_rng(seed)
    lengths = np.sort(random.integers(1, 40, 9))
    counts = random.integers(1, 50, 9)
    chosen = choose_lengths(lengths, counts, num_lengths)
    assert len(chosen) <= num_lengths
    assert (np.diff(chosen) > 0).all()
    assert chosen[-1] == lengths[-1]
    assert num_positions(lengths, counts, chosen) == least_positions(
        lengths.tolist(), counts.tolist(), num_lengths
    )


def test_more_lengths_than_occur_are_those_that_do():
    chosen = choose_lengths(np.array([3, 3, 5]), np.array([1, 2, 1]), 12)
    assert chosen.tolist() == [3, 5]
