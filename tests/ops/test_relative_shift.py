"""The relative shift, drawn for three queries and `K = 2`."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops.relative_shift import relative_shift
from relative_attention.ops.relative_shift import transposed_relative_shift

# Tens are queries, ones are distances -2 to 2.
BY_DISTANCE = [
    [10, 11, 12, 13, 14],
    [20, 21, 22, 23, 24],
    [30, 31, 32, 33, 34],
]
BY_KEY = [
    [10, 11, 12, 13, 14, 14, 14],
    [0, 20, 21, 22, 23, 24, 24],
    [0, 0, 30, 31, 32, 33, 34],
]
# Without a future, keys beyond `K` get nothing.
BY_KEY_UNTIL_K = [
    [10, 11, 12, 13, 14, 0, 0],
    [0, 20, 21, 22, 23, 24, 0],
    [0, 0, 30, 31, 32, 33, 34],
]


def tensor(rows):
    return ops.array([[rows]], "float32")


@pytest.mark.parametrize(
    ("has_future", "expected"),
    [(True, BY_KEY), (False, BY_KEY_UNTIL_K)],
    ids=["future", "no_future"],
)
@pytest.mark.parametrize("margins", [(0, 0), (2, 2), (1, 0)])
def test_shift_moves_each_distance_to_its_key(margins, has_future, expected):
    result = relative_shift(tensor(BY_DISTANCE), margins, has_future)
    before, after = margins
    expected = np.array(expected)[:, before : 7 - after]
    np.testing.assert_array_equal(result[0, 0], expected)


@pytest.mark.parametrize(
    ("has_future", "expected"),
    [
        (True, [[0, 1, 2, 3, 15], [8, 9, 10, 11, 25], [16, 17, 18, 19, 20]]),
        (False, [[0, 1, 2, 3, 4], [8, 9, 10, 11, 12], [16, 17, 18, 19, 20]]),
    ],
    ids=["future", "no_future"],
)
def test_transpose_sums_the_keys_of_a_distance(has_future, expected):
    # Query 0 has 4, 5, 6 at distances 2, 3, 4: all of them clipped to 2.
    by_key = np.arange(21.0).reshape(3, 7)
    result = transposed_relative_shift(tensor(by_key), 5, has_future=has_future)
    np.testing.assert_array_equal(result[0, 0], expected)


@pytest.mark.parametrize("has_future", [True, False])
@pytest.mark.parametrize(
    ("length", "margins"),
    # Fewer queries than distances, and more: they are padded in another way.
    [(1, (0, 0)), (3, (2, 1)), (5, (2, 2)), (6, (0, 2)), (8, (1, 0))],
)
def test_one_is_the_transpose_of_the_other(rng, length, margins, has_future):
    width = length + 4 - sum(margins)
    x = rng.integers(-9, 9, (2, 3, length, 5)).astype("float32")
    y = rng.integers(-9, 9, (2, 3, length, width)).astype("float32")
    shifted = np.array(relative_shift(ops.array(x), margins, has_future))
    summed = np.array(
        transposed_relative_shift(ops.array(y), 5, margins, has_future)
    )
    assert shifted.shape == y.shape and summed.shape == x.shape
    # `<S x, y> = <x, S^T y>`, in small integers: exactly.
    assert (shifted * y).sum() == (x * summed).sum()
