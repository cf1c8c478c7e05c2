"""Pairs by their lengths, sorted a part at a time."""

import numpy as np
import pytest

from relative_attention.data import length_order
from relative_attention.data.length_order import order_by_length


def offsets_of(lengths, dtype=np.uint32):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_order_by_hand(chunk, dtype, monkeypatch):
    monkeypatch.setattr(length_order, "_CHUNK", chunk)
    pairs = np.full(4, -1)
    # With an end each, sources have 3, 2, 2, 3 tokens, targets 2, 2, 3, 2.
    order = order_by_length(
        offsets_of([2, 1, 1, 2], dtype), offsets_of([1, 1, 2, 1], dtype), pairs
    )
    assert order.pairs is pairs
    assert pairs.tolist() == [1, 2, 0, 3]
    assert order.longest.tolist() == [2, 3, 3]
    assert order.difference.tolist() == [0, -1, 1]
    assert order.starts.tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("chunk", [7, 1_000])
def test_order_is_that_of_a_stable_sort(chunk, rng, monkeypatch):
    monkeypatch.setattr(length_order, "_CHUNK", chunk)
    source, target = rng.integers(1, 12, (2, 200))
    order = order_by_length(
        offsets_of(source), offsets_of(target), np.full(200, -1)
    )
    longest = np.maximum(source, target)
    expected = np.lexsort((source - target, longest))
    np.testing.assert_array_equal(order.pairs, expected)
    # Each pair, in this order, has the lengths of its group.
    sizes = np.diff(order.starts)
    for lengths, wanted in (
        (order.longest, longest + 1),
        (order.difference, source - target),
    ):
        np.testing.assert_array_equal(
            np.repeat(lengths, sizes), wanted[expected]
        )
    groups = list(zip(order.longest.tolist(), order.difference.tolist()))
    assert groups == sorted(set(groups))
