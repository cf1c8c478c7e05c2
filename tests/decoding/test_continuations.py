"""The largest logits of a vocabulary, against those of Keras."""

import keras
import numpy as np
import pytest

from relative_attention.decoding import continuations
from relative_attention.decoding.continuations import top_k


def arrays(*tensors):
    return [keras.ops.convert_to_numpy(tensor) for tensor in tensors]


# Primes have no divisor near their root; squares and round numbers have.
@pytest.mark.parametrize(
    "size, k",
    [(1, 1), (2, 2), (13, 1), (13, 8), (64, 8), (101, 17), (8192, 100)],
)
def test_largest_are_those_of_keras(rng, size, k):
    values = rng.permutation(2 * 3 * size).reshape(2, 3, size)
    values = values.astype(np.float32) - 2 * size
    found = arrays(*top_k(keras.ops.convert_to_tensor(values), k))
    wanted = arrays(*keras.ops.top_k(values, k))
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    assert found[1].dtype == np.int32
    np.testing.assert_array_equal(found[2], values.max(-1, keepdims=True))


@pytest.mark.parametrize("size, k", [(11, 9), (53, 4), (60, 1)])
def test_ties_give_different_indices_of_the_same_values(rng, size, k):
    values = rng.integers(0, 3, (4, 2, size)).astype(np.float32)
    values[0] = 1.0
    found, indices, largest = arrays(
        *top_k(keras.ops.convert_to_tensor(values), k)
    )
    np.testing.assert_array_equal(found, -np.sort(-values)[..., :k])
    np.testing.assert_array_equal(
        np.take_along_axis(values, indices, axis=-1), found
    )
    for row in indices.reshape(-1, k).tolist():
        assert len(set(row)) == k
    np.testing.assert_array_equal(largest, values.max(-1, keepdims=True))


def test_what_is_impossible_comes_before_padding():
    # All but one are as a search forbids them; the rest of a chunk is none.
    values = np.full((1, 1, 103), -1e7, np.float32)
    values[..., 50] = -3.0
    found, indices, _ = arrays(*top_k(keras.ops.convert_to_tensor(values), 103))
    assert indices[0, 0, 0] == 50
    assert sorted(indices[0, 0].tolist()) == list(range(103))
    assert found.min() == np.float32(-1e7)


@pytest.mark.parametrize("own", [True, False], ids=["own", "keras"])
def test_two_of_seven_by_hand(monkeypatch, own):
    monkeypatch.setattr(continuations, "prefers_own_kernels", lambda: own)
    values = np.array([[[3, 1, 4, 0, 5, 9, 2]]], np.float32)
    found, indices, largest = arrays(
        *top_k(keras.ops.convert_to_tensor(values), 2)
    )
    assert found.tolist() == [[[9, 5]]]
    assert indices.tolist() == [[[5, 4]]] and indices.dtype == np.int32
    assert largest.tolist() == [[[9]]]
