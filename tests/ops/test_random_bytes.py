"""Bytes that dropout is made of."""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.random_bytes import random_bytes


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 100_000])
def test_there_are_as_many_as_asked_for(size):
    word, levels = random_bytes(size, keras.random.SeedGenerator(1))
    assert (tuple(word.shape), tuple(levels.shape)) == ((), (size,))
    assert [
        str(keras.backend.standardize_dtype(x.dtype)) for x in (word, levels)
    ] == [
        "int32",
        "int8",
    ]


def test_all_values_are_alike_and_neighbours_independent():
    seed = keras.random.SeedGenerator(1)
    levels = ops.convert_to_numpy(random_bytes(256_000, seed)[1]).astype(
        "int64"
    )
    counts = np.bincount(levels + 128, minlength=256)
    # Chi squared of 255 degrees of freedom: mean 255, deviation 22.6.
    assert ((counts - 1000.0) ** 2 / 1000).sum() < 255 + 5 * 22.6
    deviations = levels - levels.mean()
    for distance in (1, 2, 4, 8, 64):
        correlation = np.mean(deviations[distance:] * deviations[:-distance])
        # Of independent values it deviates by 1 / sqrt(256,000).
        assert abs(correlation / levels.var()) < 5 / 256_000**0.5


def test_every_call_draws_anew_and_a_seed_draws_the_same():
    seed, same = (keras.random.SeedGenerator(7) for _ in range(2))
    first, second = (
        ops.convert_to_numpy(random_bytes(1000, seed)[1]) for _ in range(2)
    )
    assert (first != second).mean() > 0.9
    again = ops.convert_to_numpy(random_bytes(1000, same)[1])
    np.testing.assert_array_equal(first, again)


def test_they_are_those_of_keras_range_of_words():
    """So that a run goes on from an older checkpoint as it would have."""
    seed, same = (keras.random.SeedGenerator(7) for _ in range(2))
    for size in (6, 4001):
        word, levels = random_bytes(size, seed)
        words = ops.convert_to_numpy(
            keras.random.randint(
                (size // 4 + 2,), -(2**31), 2**31 - 1, dtype="int32", seed=same
            )
        )
        assert int(word) == words[0]
        np.testing.assert_array_equal(
            ops.convert_to_numpy(levels), words[1:].view("int8")[:size]
        )
