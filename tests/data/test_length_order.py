"""Pairs by their lengths, sorted a part at a time."""

import numpy as np
import pytest

from relative_attention.data import length_order
from relative_attention.data.length_order import order_by_length


def offsets_of(lengths, dtype=np.uint32):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


@pytest.mark.parametrize("chunk", [1, 7, 100, 10_000])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_order_is_that_of_a_stable_sort(chunk, dtype, rng, monkeypatch):
    monkeypatch.setattr(length_order, "_CHUNK", chunk)
    source, target = rng.integers(1, 12, (2, 700))
    pairs = np.full(700, -1)
    order = order_by_length(
        offsets_of(source, dtype), offsets_of(target, dtype), pairs
    )
    assert order.pairs is pairs
    longest = np.maximum(source, target)
    expected = np.lexsort((source - target, longest))
    np.testing.assert_array_equal(pairs, expected)
    for cell, (start, stop) in enumerate(zip(order.starts, order.starts[1:])):
        # Lengths count the end of sentence.
        assert set(longest[pairs[start:stop]] + 1) == {order.longest[cell]}
        assert set((source - target)[pairs[start:stop]]) == {
            order.difference[cell]
        }
    cells = list(zip(order.longest.tolist(), order.difference.tolist()))
    assert cells == sorted(set(cells))
    assert order.starts[-1] == 700


def test_lengths_may_be_very_unlike():
    source, target = [1, 300_000, 2], [100_000, 1, 2]
    order = order_by_length(
        offsets_of(source), offsets_of(target), np.zeros(3, np.uint32)
    )
    assert order.pairs.tolist() == [2, 0, 1]
    assert order.difference.tolist() == [0, -99_999, 299_999]
    assert order.longest.tolist() == [3, 100_001, 300_001]
