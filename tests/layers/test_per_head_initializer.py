"""`PerHeadInitializer`, which draws a table for each head."""

import keras
import numpy as np

from relative_attention.positions.relative import PerHeadInitializer


def test_per_head_initializer_draws_each_table_as_one():
    tables = np.array(
        PerHeadInitializer(keras.initializers.GlorotUniform(seed=3))(
            (5, 7, 11), dtype="float32"
        )
    )
    for head, table in enumerate(tables):
        expected = keras.initializers.GlorotUniform(seed=3 + head)((7, 11))
        np.testing.assert_array_equal(table, expected)


def test_per_head_initializer_without_seed_draws_heads_apart():
    tables = np.array(
        PerHeadInitializer("glorot_uniform")((2, 7, 11), dtype="float32")
    )
    assert (tables[0] != tables[1]).all()


def test_initializer_survives_its_config():
    initializer = PerHeadInitializer(keras.initializers.HeNormal(seed=3))
    config = keras.initializers.serialize(initializer)
    clone = keras.initializers.deserialize(config)
    assert clone.get_config() == initializer.get_config()
    np.testing.assert_array_equal(clone((2, 3, 5)), initializer((2, 3, 5)))
