import numpy as np
import pytest

from relative_attention.layers import FeedForward

B, T, D, F = 2, 5, 7, 13


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


def build_layer(rng, **arguments):
    layer = FeedForward(F, **arguments)
    layer.build((None, None, D))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def test_outputs_are_two_products_with_a_relu_between(rng, inputs):
    layer = build_layer(rng)
    kernel_in, bias_in, kernel_out, bias_out = (
        np.array(weight, "float64") for weight in layer.weights
    )
    hidden = inputs @ kernel_in + bias_in
    assert (hidden < 0).any()
    np.testing.assert_allclose(
        layer(inputs),
        np.maximum(hidden, 0) @ kernel_out + bias_out,
        rtol=1e-5,
        atol=1e-5,
    )


def test_dropout_falls_on_the_intermediate_units(rng, inputs):
    layer = build_layer(rng, dropout=0.5, seed=7)
    kernel_in, bias_in, kernel_out, bias_out = (
        np.array(weight, "float64") for weight in layer.weights
    )
    # One input, many masks: outputs are sums of units doubled or left out.
    hidden = np.maximum(inputs[:1, :1] @ kernel_in + bias_in, 0)
    outputs = layer(np.repeat(inputs[:1, :1], 50, axis=1), training=True)
    combinations = np.stack(
        [
            (hidden[0, 0] * 2 * np.array(bits)) @ kernel_out + bias_out
            for bits in np.ndindex(*[2] * F)
        ]
    )
    for row in np.array(outputs[0]):
        assert np.abs(combinations - row).max(axis=1).min() < 1e-4
    assert len(np.unique(np.array(outputs[0]).round(4), axis=0)) > 10
    np.testing.assert_array_equal(layer(inputs, training=False), layer(inputs))


def test_layer_behaves_as_a_keras_layer(inputs, run_layer_test):
    run_layer_test(FeedForward(F, dropout=0.25, seed=3), [inputs], 4)
