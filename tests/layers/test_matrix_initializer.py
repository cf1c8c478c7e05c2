"""`MatrixInitializer`, which draws kernels of heads as matrices."""

import keras
import numpy as np
import pytest

from relative_attention.layers.dense import MatrixInitializer


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


def test_initializer_survives_its_config():
    initializer = MatrixInitializer(keras.initializers.HeNormal(seed=3), 2)
    config = keras.initializers.serialize(initializer)
    clone = keras.initializers.deserialize(config)
    assert clone.get_config() == initializer.get_config()
    np.testing.assert_array_equal(clone((2, 3, 5)), initializer((2, 3, 5)))
