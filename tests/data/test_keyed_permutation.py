"""A shuffle of which any element is found alone."""

import numpy as np
import pytest

from relative_attention.data.token_batches import keyed_permutation


def permutation(size, key):
    return keyed_permutation(
        np.arange(size), np.full(size, size), np.full(size, key, np.uint64)
    ).tolist()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 65, 1_000])
def test_every_element_comes_once(size):
    assert sorted(permutation(size, 2**64 - 1)) == list(range(size))


def test_every_order_comes_about_as_often(rng):
    keys = rng.integers(2**64, size=4_800, dtype=np.uint64)
    orders = keyed_permutation(
        np.tile(np.arange(4), 4_800), np.full(19_200, 4), np.repeat(keys, 4)
    ).reshape(-1, 4)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    # 200 of each of the 24 are expected, give or take 14.
    assert len(counts) == 24
    assert counts.min() > 150 and counts.max() < 250
