"""`MatrixInitializer` and `PerHeadInitializer`."""

import keras
import numpy as np
import pytest

from relative_attention.layers.matrix_initializer import MatrixInitializer
from relative_attention.layers.per_head_initializer import PerHeadInitializer


@pytest.mark.parametrize(
    "shape, num_input_axes, matrix_shape",
    [((7, 3, 5), 1, (7, 15)), ((3, 5, 7), 2, (15, 7))],
    ids=["into_heads", "out_of_heads"],
)
def test_matrix_initializer_draws_the_matrix(
    shape, num_input_axes, matrix_shape
):
    values = MatrixInitializer(
        keras.initializers.GlorotUniform(seed=3), num_input_axes
    )(shape, dtype="float32")
    matrix = keras.initializers.GlorotUniform(seed=3)(matrix_shape)
    np.testing.assert_array_equal(values, np.reshape(matrix, shape))


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


@pytest.mark.parametrize(
    "initializer",
    [
        MatrixInitializer(keras.initializers.HeNormal(seed=3), 2),
        PerHeadInitializer(keras.initializers.HeNormal(seed=3)),
    ],
    ids=["matrix", "per_head"],
)
def test_initializer_survives_its_config(initializer):
    config = keras.initializers.serialize(initializer)
    clone = keras.initializers.deserialize(config)
    assert clone.get_config() == initializer.get_config()
    np.testing.assert_array_equal(clone((2, 3, 5)), initializer((2, 3, 5)))
