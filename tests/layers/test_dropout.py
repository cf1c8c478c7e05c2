"""Dropout by bytes: its share, its draws, its gradient."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers import Dropout

RATES = pytest.mark.parametrize(
    "rate",
    # A threshold that is a whole number, one midway between two, and a rate
    # beyond what eight bits resolve: Keras' own dropout.
    [0.5, 76.5 / 256, 0.01],
    ids="{:.3g}".format,
)


@pytest.fixture
def inputs(rng):
    """No zeros, so that a zero is a dropped element."""
    return (1 + rng.random((53, 401))).astype("float32")


@RATES
def test_dropped_share_is_the_rate(rate):
    layer = Dropout(rate, seed=11)
    ones = np.ones((211, 401), "float32")
    calls = 100
    dropped = sum(
        np.count_nonzero(np.array(layer(ones, training=True)) == 0)
        for _ in range(calls)
    )
    # The threshold of eight bits is rounded up or down once a call. Rounding
    # 76.5 in one direction always would be off by seven deviations.
    fraction = rate * 256 % 1
    variance = rate * (1 - rate) / ones.size
    variance += fraction * (1 - fraction) / 256**2
    assert abs(dropped / calls / ones.size - rate) < 5 * np.sqrt(
        variance / calls
    )


def test_elements_are_dropped_independently():
    layer = Dropout(0.1, seed=11)
    masks = np.array(layer(np.ones((397, 1013), "float32"), training=True)) == 0
    share = masks.mean()
    for shift in (1, 2, 4, 1013):
        flat = masks.reshape(-1)
        both = (flat[shift:] & flat[:-shift]).mean()
        # Five standard errors of the share of pairs.
        assert abs(both - share**2) < 5 * np.sqrt(
            3 * share**2 * (1 - share) / flat.size
        )


@RATES
def test_kept_elements_and_their_gradient_are_scaled(inputs, gradients, rate):
    layer, twin = (Dropout(rate, seed=11) for _ in range(2))
    outputs = np.array(layer(inputs, training=True))
    kept = outputs != 0
    assert kept.any() and not kept.all()
    np.testing.assert_allclose(
        outputs[kept], inputs[kept] / (1 - rate), rtol=1e-6
    )
    (gradient,) = gradients(
        lambda x: ops.sum(ops.multiply(twin(x, training=True), inputs)),
        [inputs],
    )
    np.testing.assert_allclose(gradient, outputs, rtol=1e-5)


@pytest.mark.only_on(
    "tensorflow", "torch", reason="JAX has no float64 by default"
)
def test_scale_has_all_digits_of_float64():
    layer = Dropout(0.3, dtype="float64")
    outputs = np.array(layer(np.ones(99), training=True))
    assert set(outputs) == {0.0, 1 / (1 - 0.3)}


def test_same_seed_draws_the_same_masks(inputs):
    first, second, other = (Dropout(0.3, seed=seed) for seed in (11, 11, 12))
    for _ in range(3):
        outputs = np.array(first(inputs, training=True))
        np.testing.assert_array_equal(second(inputs, training=True), outputs)
        assert (np.array(other(inputs, training=True)) != outputs).any()


@pytest.mark.only_on("tensorflow", reason="it is about tf.function")
def test_graph_draws_again_at_each_call(inputs):
    symbol = keras.Input((None,))
    model = keras.Model(symbol, Dropout(0.3, seed=11)(symbol))
    import tensorflow as tf

    graph = tf.function(lambda x: model(x, training=True))
    first, second = (np.array(graph(inputs)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(
        Dropout(0.3, seed=11)(inputs, training=True), first
    )


def test_feed_forward_drops_intermediate_units(rng, randomize):
    layer = ra.FeedForward(13, dropout=0.5, seed=7)
    layer.build((None, None, 7))
    kernel_in, bias_in, kernel_out, bias_out = map(
        np.array, randomize(layer).weights
    )
    inputs = rng.normal(size=(2, 5, 7)).astype("float32")
    hidden = np.maximum(inputs @ kernel_in + bias_in, 0)
    draw = Dropout(0.5, seed=7).for_call(training=True)
    factors = draw((2 * 5, 13)).factors("float32")
    factors = np.array(factors).reshape(2, 5, 13)
    assert set(np.unique(factors)) == {0, 2}
    np.testing.assert_allclose(
        layer(inputs, training=True),
        (hidden * factors) @ kernel_out + bias_out,
        rtol=1e-4,
        atol=1e-4,
    )
    np.testing.assert_allclose(
        layer(inputs), hidden @ kernel_out + bias_out, rtol=1e-4, atol=1e-4
    )


def test_all_is_dropped_at_a_rate_of_one(inputs):
    np.testing.assert_array_equal(Dropout(1.0)(inputs, training=True), 0)
