import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.skew import skew
from relative_attention.ops.skew import unskew

B, N, T = 2, 3, 5
SIZES = pytest.mark.parametrize(
    "length, reach", [(1, 2), (2, 1), (T, 0), (T, 2), (T, 7)]
)


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def by_key(by_distance, reach):
    """Entry by entry; zero for keys out of reach."""
    length = by_distance.shape[2]
    result = np.zeros((*by_distance.shape[:2], length, length), "float32")
    for i, j in np.ndindex(length, length):
        if j - i <= reach:
            result[:, :, i, j] = by_distance[:, :, i, j - i + length - 1]
    return result


def by_distance(by_key, reach):
    """Entry by entry; zero for distances to no key."""
    length = by_key.shape[2]
    result = np.zeros((*by_key.shape[:2], length, length + reach), "float32")
    for i, j in np.ndindex(length, length):
        if j - i <= reach:
            result[:, :, i, j - i + length - 1] = by_key[:, :, i, j]
    return result


def test_skew_by_hand():
    # Tens are queries, ones are distances -1, 0, 1 plus 1.
    rows = ops.array([[[[10, 11, 12], [20, 21, 22]]]])
    np.testing.assert_array_equal(skew(rows)[0, 0], [[11, 12], [20, 21]])
    keys = ops.array([[[[11, 12], [20, 21]]]])
    np.testing.assert_array_equal(
        unskew(keys, 1)[0, 0], [[0, 11, 12], [20, 21, 0]]
    )


@SIZES
def test_skew_moves_each_distance_to_its_key(rng, length, reach):
    rows = normal(rng, B, N, length, length + reach)
    # Above this diagonal are keys out of reach, of which nothing is promised.
    result = np.tril(skew(rows), reach)
    np.testing.assert_array_equal(result, by_key(rows, reach))


@SIZES
def test_unskew_moves_each_key_to_its_distance(rng, length, reach):
    rows = np.tril(normal(rng, B, N, length, length), reach)
    result = unskew(rows, reach)
    np.testing.assert_array_equal(result, by_distance(rows, reach))
    np.testing.assert_array_equal(np.tril(skew(result), reach), rows)


@SIZES
def test_gradient_of_each_is_the_other(rng, gradients, length, reach):
    rows = normal(rng, B, N, length, length + reach)
    weights = np.tril(normal(rng, B, N, length, length), reach)
    (gradient,) = gradients(
        lambda x: ops.sum(ops.multiply(skew(x), weights)), [rows]
    )
    np.testing.assert_array_equal(gradient, by_distance(weights, reach))

    (gradient,) = gradients(
        lambda x: ops.sum(ops.multiply(unskew(x, reach), rows)), [weights]
    )
    np.testing.assert_array_equal(np.tril(gradient, reach), by_key(rows, reach))


def _lower_triangle(rows):
    # `ops.tril` of Keras before 3.12 wants to know the length.
    positions = ops.arange(ops.shape(rows)[2])
    return ops.cast(positions[:, None] >= positions, rows.dtype)


def test_one_graph_takes_any_length(rng):
    symbol = keras.Input((N, None, None))
    there_and_back = keras.layers.Lambda(
        lambda x: unskew(skew(x) * _lower_triangle(x), 0),
        output_shape=(N, None, None),
    )
    model = keras.Model(symbol, there_and_back(symbol))
    for length in (3, 1):
        rows = normal(rng, B, N, length, length)
        expected = by_distance(by_key(rows, 0), 0)
        result = model.predict_on_batch(rows)
        np.testing.assert_array_equal(result, expected)
