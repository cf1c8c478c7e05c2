import keras
import numpy as np
import pytest

from relative_attention.layers import LayerNormalization

B, T, D = 2, 5, 11


@pytest.fixture
def inputs(rng):
    return (3 * rng.normal(size=(B, T, D)) + 2).astype("float32")


@pytest.mark.parametrize("epsilon", [1e-6, 0.1])
def test_layer_is_kerass(rng, inputs, epsilon):
    layer = LayerNormalization(epsilon=epsilon)
    keras_layer = keras.layers.LayerNormalization(epsilon=epsilon)
    layer.build(inputs.shape)
    keras_layer.build(inputs.shape)
    weights = rng.normal(size=(2, D)).astype("float32")
    for either in (layer, keras_layer):
        either.set_weights(list(weights))
    np.testing.assert_allclose(
        layer(inputs), keras_layer(inputs), rtol=1e-5, atol=1e-5
    )


def test_epsilon_is_tensor2tensors_unless_given():
    assert LayerNormalization().epsilon == 1e-6


@pytest.mark.parametrize(
    "argument", [{"axis": 1}, {"scale": False}, {"center": False}], ids=str
)
def test_what_is_not_supported_is_refused(argument):
    ((name, value),) = argument.items()
    with pytest.raises(ValueError, match=f"Received: .*{name}={value}"):
        LayerNormalization(**argument)


def test_layer_behaves_as_a_keras_layer(inputs, run_layer_test):
    run_layer_test(LayerNormalization(epsilon=1e-3), [inputs], num_weights=2)
