import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra

B, S, D = 2, 5, 11


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, S, D)).astype("float32")


def test_one_vector_is_added_at_every_position(inputs, gradients, rng):
    layer = ra.TargetSpaceEmbedding()
    layer.build((None, None, D))
    assert [tuple(weight.shape) for weight in layer.weights] == [(D,)]
    vector = rng.normal(size=D).astype("float32")
    layer.embedding.assign(vector)
    np.testing.assert_array_equal(layer(inputs), inputs + vector)

    projection = rng.normal(size=(B, S, D)).astype("float32")
    of_inputs, of_vector = gradients(
        lambda x: ops.sum(ops.multiply(layer(x), projection)),
        [inputs],
        layer.trainable_weights,
    )
    np.testing.assert_array_equal(of_inputs, projection)
    np.testing.assert_allclose(of_vector, projection.sum((0, 1)), rtol=1e-5)


def test_keras_mask_is_passed_on(inputs):
    layer = ra.TargetSpaceEmbedding()
    inputs[0, 3:] = 0
    symbol = keras.Input((S, D))
    hidden = layer(keras.layers.Masking()(symbol))
    means = keras.layers.GlobalAveragePooling1D()(hidden)
    expected = inputs[0, :3].mean(0) + np.array(layer.embedding)
    np.testing.assert_allclose(
        keras.Model(symbol, means)(inputs)[0], expected, rtol=1e-5, atol=1e-5
    )


def test_initial_values_are_those_of_a_row_of_tensor2tensors_table():
    layer = ra.TargetSpaceEmbedding()
    layer.build((None, None, 4096))
    values = np.array(layer.embedding)
    limit = np.sqrt(6 / (32 + 4096))
    assert 0.99 * limit < np.abs(values).max() <= limit
    # Five standard errors of the deviation of a uniform distribution.
    np.testing.assert_allclose(
        values.std(), limit / np.sqrt(3), rtol=5 * 0.45 / 64
    )


def test_layer_behaves_as_a_keras_layer(inputs, run_layer_test):
    run_layer_test(ra.TargetSpaceEmbedding(), [inputs], num_weights=1)
