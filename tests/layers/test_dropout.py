import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import Dropout

RATES = pytest.mark.parametrize(
    "rate",
    # A threshold that is a whole number, one midway between two, and a rate
    # beyond what eight bits resolve: Keras' own dropout.
    [
        0.5,
        76.5 / 256,
        0.01,
        *(
            pytest.param(rate, marks=pytest.mark.large)
            for rate in (0.1, 0.3, 0.75, 1 / 32, 0.9, 0.99)
        ),
    ],
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


@pytest.mark.parametrize("rate", [0.1, 0.5], ids=str)
def test_elements_are_dropped_independently(rate):
    layer = Dropout(rate, seed=11)
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
def test_kept_elements_are_scaled_so_that_the_mean_stays(inputs, rate):
    layer = Dropout(rate, seed=11)
    outputs = np.array(layer(inputs, training=True))
    kept = outputs != 0
    assert kept.any() and not kept.all()
    np.testing.assert_allclose(
        outputs[kept], inputs[kept] / (1 - rate), rtol=1e-6
    )
    # Five standard errors, and what rounding the threshold may shift.
    error = np.sqrt((inputs**2).mean() * rate / (1 - rate) / inputs.size)
    shift = inputs.mean() / 256 / (1 - rate)
    assert abs(outputs.mean() - inputs.mean()) < 5 * error + shift


@RATES
def test_gradient_has_the_mask_of_the_outputs(inputs, gradients, rate, rng):
    weights = (1 + rng.random(inputs.shape)).astype("float32")
    layer, twin = (Dropout(rate, seed=11) for _ in range(2))
    outputs = np.array(layer(inputs, training=True))
    (gradient,) = gradients(
        lambda inputs: ops.sum(
            ops.multiply(twin(inputs, training=True), weights)
        ),
        [inputs],
    )
    np.testing.assert_allclose(gradient, outputs / inputs * weights, rtol=1e-5)


@pytest.mark.parametrize("training", [False, None])
def test_inference_changes_nothing(inputs, training):
    np.testing.assert_array_equal(
        Dropout(0.3)(inputs, training=training), inputs
    )


def test_rate_zero_changes_nothing(inputs):
    np.testing.assert_array_equal(Dropout(0.0)(inputs, training=True), inputs)


def test_masks_differ_from_call_to_call(inputs):
    layer = Dropout(0.3, seed=11)
    first, second = (
        np.array(layer(inputs, training=True)) == 0 for _ in range(2)
    )
    both = (first & second).mean()
    assert abs(both - 0.09) < 0.02


def test_same_seed_draws_the_same_masks(inputs):
    first, second, other = (Dropout(0.3, seed=seed) for seed in (11, 11, 12))
    for _ in range(3):
        outputs = np.array(first(inputs, training=True))
        np.testing.assert_array_equal(second(inputs, training=True), outputs)
        assert (np.array(other(inputs, training=True)) != outputs).any()


def test_noise_shape_shares_the_mask():
    layer = Dropout(0.5, noise_shape=(None, 1), seed=11)
    outputs = np.array(layer(np.ones((53, 7), "float32"), training=True))
    assert (outputs == outputs[:, :1]).all()
    assert 0 < (outputs[:, 0] == 0).sum() < 53


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 5)], ids=str)
def test_any_shape_is_kept(shape):
    layer = Dropout(0.5, seed=11)
    outputs = {
        float(value)
        for _ in range(30)
        for value in np.ravel(layer(np.ones(shape, "float32"), training=True))
    }
    assert layer(np.ones(shape, "float32"), training=True).shape == shape
    assert outputs == {0.0, 2.0}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_kept(inputs, dtype):
    layer = Dropout(0.25, seed=11, dtype=f"mixed_{dtype}")
    outputs = layer(inputs, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    outputs = np.array(ops.cast(outputs, "float32"))
    kept = outputs != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(outputs[kept], inputs[kept] / 0.75, rtol=1e-2)


@pytest.mark.only_on("tensorflow", reason="it is about tf.function")
def test_graph_draws_anew_at_each_call(inputs):
    symbol = keras.Input((None,))
    model = keras.Model(symbol, Dropout(0.3, seed=11)(symbol))
    import tensorflow as tf

    graph = tf.function(lambda x: model(x, training=True))
    first, second = (np.array(graph(inputs)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(
        Dropout(0.3, seed=11)(inputs, training=True), first
    )


def test_layer_behaves_as_a_keras_layer(inputs, run_layer_test):
    run_layer_test(Dropout(0.3, seed=11), [inputs], num_weights=0)
