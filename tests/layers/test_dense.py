"""Projections and feed-forward: values, gradients, dropout.

`tests/models/test_adapters.py` has them in int8 and with adapters.
"""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import Dropout
from relative_attention.layers import FeedForward
from relative_attention.layers.dense import HeadProjection
from tests.layers.paper import assert_same
from tests.layers.paper import normal

B, T, D, F, N, H = 2, 5, 7, 13, 3, 11


EQUATIONS = pytest.mark.parametrize(
    "equation, output_shape, bias_axes, input_shape",
    [
        ("btd,dnh->btnh", (None, N, H), "nh", (B, T, D)),
        ("btnh,nhd->btd", (None, D), "d", (B, T, N, H)),
    ],
    ids=["into_heads", "out_of_heads"],
)


@EQUATIONS
@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
def test_layer_is_einsum_dense(
    rng, gradients, equation, output_shape, bias_axes, input_shape, use_bias
):
    inputs = normal(rng, *input_shape)
    layers = [
        cls(
            equation,
            output_shape,
            bias_axes=bias_axes if use_bias else None,
        )
        for cls in (HeadProjection, keras.layers.EinsumDense)
    ]
    for layer in layers:
        layer.build((None, *input_shape[1:]))
    weights = [normal(rng, *weight.shape) for weight in layers[0].weights]
    assert len(weights) == 1 + use_bias
    for layer in layers:
        layer.set_weights(weights)
    outputs, expected = (np.array(layer(inputs)) for layer in layers)
    assert_same(outputs, expected)

    upstream = ops.array(normal(rng, *expected.shape))
    results, wanted = (
        gradients(
            lambda inputs, layer=layer: ops.sum(layer(inputs) * upstream),
            [inputs],
            layer.trainable_weights,
        )
        for layer in layers
    )
    assert len(results) == 2 + use_bias
    for result, want in zip(results, wanted, strict=True):
        assert_same(result, want)


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
    assert_same(layer(inputs), np.maximum(hidden, 0) @ kernel_out + bias_out)


def test_dropout_falls_on_the_intermediate_units(rng, inputs):
    layer = build_layer(rng, dropout=0.5, seed=7)
    kernel_in, bias_in, kernel_out, bias_out = map(np.array, layer.weights)
    hidden = np.maximum(inputs @ kernel_in + bias_in, 0)
    factors = Dropout(0.5, seed=7).draw_factors((B * T, F), "float32")
    factors = np.array(factors).reshape(B, T, F)
    assert set(np.unique(factors)) == {0, 2}
    assert_same(
        layer(inputs, training=True),
        (hidden * factors) @ kernel_out + bias_out,
        1e-4,
    )
    np.testing.assert_array_equal(layer(inputs, training=False), layer(inputs))
