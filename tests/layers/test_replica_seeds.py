"""Seeds that differ from replica to replica."""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import dropout as module
from relative_attention.layers.dropout import replica_seed
from relative_attention.layers.dropout import replica_seeds

ON_TENSORFLOW = pytest.mark.only_on(
    "tensorflow", reason="tf.distribute is TensorFlow's"
)


@ON_TENSORFLOW
def test_first_replica_keeps_the_seed_and_others_do_not():
    seed = ops.array([5, 2], "uint32")
    seeds = [
        tuple(ops.convert_to_numpy(replica_seed(seed, number)).tolist())
        for number in range(3)
    ]
    # The golden ratio of 2^32, once and twice, beside the count of draws.
    assert seeds == [
        (5, 2),
        (5 + 0x9E3779B1, 2),
        ((5 + 2 * 0x9E3779B1) % 2**32, 2),
    ]


def test_generator_is_as_it_was_with_one_replica():
    generator = keras.random.SeedGenerator(3)
    with replica_seeds(generator) as seeds:
        assert seeds is generator


@ON_TENSORFLOW
def test_replica_draws_by_its_own_seed_and_counts_as_all_do(monkeypatch):
    generator = keras.random.SeedGenerator(3)
    monkeypatch.setattr(module, "replica_number", lambda: ops.array(1))
    with replica_seeds(generator) as seeds:
        drawn = np.array(keras.random.uniform((7,), seed=seeds))
    np.testing.assert_array_equal(generator.state.value, [3, 1])
    twin = keras.random.SeedGenerator(0)
    twin.state.assign(np.array([3 + 0x9E3779B1, 0], "uint32"))
    np.testing.assert_array_equal(keras.random.uniform((7,), seed=twin), drawn)
