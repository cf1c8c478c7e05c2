import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import cpu_kernels
from relative_attention.ops.cpu_kernels import feed_forward
from relative_attention.ops.cpu_kernels import layer_normalization
from relative_attention.ops.cpu_kernels import random_bytes

B, T, D, F = 2, 5, 11, 7
SCALE = 1 / (1 - 0.25)


@pytest.fixture(params=[True, False], ids=["own", "keras"])
def kernels(request, monkeypatch):
    """Its own way of computing, and Keras' where that was not measured."""
    if request.param and keras.backend.backend() == "torch":
        pytest.skip("PyTorch has Keras' own")
    if not request.param and not hasattr(ops, "layer_normalization"):
        pytest.skip("this Keras has none of its own")
    monkeypatch.setattr(
        cpu_kernels, "prefers_own_kernels", lambda: request.param
    )


@pytest.fixture
def arguments(rng):
    """Rows that are not centred, a scale and a shift."""
    return [
        (3 * rng.normal(size=(B, T, D)) + 2).astype("float32"),
        rng.normal(size=D).astype("float32"),
        rng.normal(size=D).astype("float32"),
    ]


def normalization(inputs, gamma, beta, epsilon):
    inputs = inputs.astype("float64")
    mean = inputs.mean(-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(-1, keepdims=True)
    return (inputs - mean) / np.sqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
@pytest.mark.parametrize("shape", [(B, T, D), (D,), (2, 1, 5, D)], ids=str)
def test_layer_normalization_is_the_formula(rng, kernels, shape, epsilon):
    inputs = (3 * rng.normal(size=shape) + 2).astype("float32")
    gamma, beta = rng.normal(size=(2, D)).astype("float32")
    np.testing.assert_allclose(
        layer_normalization(ops.array(inputs), gamma, beta, epsilon),
        normalization(inputs, gamma, beta, epsilon),
        rtol=1e-5,
        atol=1e-5,
    )


def test_layer_normalization_gradients_are_finite_differences(
    arguments, gradients, rng, kernels
):
    epsilon = 0.5
    weights = rng.normal(size=(B, T, D)).astype("float32")
    results = gradients(
        lambda *tensors: ops.sum(
            ops.multiply(layer_normalization(*tensors, epsilon), weights)
        ),
        arguments,
    )
    step = 1e-5
    for position, result in enumerate(results):
        direction = rng.normal(size=result.shape)
        shifted = [
            [
                array.astype("float64")
                + (sign * step * direction if index == position else 0)
                for index, array in enumerate(arguments)
            ]
            for sign in (1, -1)
        ]
        above, below = (
            (normalization(*moved, epsilon) * weights).sum()
            for moved in shifted
        )
        np.testing.assert_allclose(
            (result * direction).sum(),
            (above - below) / (2 * step),
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_layer_normalization_keeps_half_precision(arguments, dtype, gradients):
    inputs, gamma, beta = arguments
    result = layer_normalization(ops.cast(inputs, dtype), gamma, beta, 1e-6)
    assert keras.backend.standardize_dtype(result.dtype) == dtype
    np.testing.assert_allclose(
        ops.cast(result, "float32"),
        normalization(*arguments, 1e-6),
        rtol=1e-2,
        atol=2e-2,  # The inputs, near 10, are themselves rounded by 2e-2.
    )
    half = ops.cast(inputs, dtype)
    gradient, *_ = gradients(
        lambda rows, gamma, beta: ops.sum(
            ops.square(
                ops.cast(
                    layer_normalization(rows, gamma, beta, 1e-6), "float32"
                )
            )
        ),
        [half, gamma, beta],
    )
    assert gradient.dtype.name == dtype
    assert np.isfinite(gradient.astype("float32")).all()


@pytest.mark.only_on("tensorflow", reason="its own kernels")
@pytest.mark.parametrize("drops", [False, True])
def test_feed_forward_gradients_are_those_of_the_equations(rng, drops):
    import tensorflow as tf

    rows, upstream = rng.normal(size=(2, T, D))
    kernels = rng.normal(size=(D, F)), rng.normal(size=(F, D))
    biases = rng.normal(size=F), rng.normal(size=D)
    factors = rng.integers(0, 2, (T, F)) * SCALE if drops else np.ones((T, F))
    before = rows @ kernels[0] + biases[0]
    hidden = np.maximum(before, 0) * factors
    d_hidden = (upstream @ kernels[1].T) * factors * (before > 0)
    expected = [
        d_hidden @ kernels[0].T,
        rows.T @ d_hidden,
        d_hidden.sum(axis=0),
        hidden.T @ upstream,
        upstream.sum(axis=0),
    ]
    given = [tf.constant(x) for x in (rows, kernels[0], biases[0])]
    given += [tf.constant(x) for x in (kernels[1], biases[1])]
    with tf.GradientTape() as tape:
        tape.watch(given)
        outputs = feed_forward(
            given[0],
            (given[1], given[3]),
            (given[2], given[4]),
            tf.constant(factors) if drops else None,
            scale=SCALE,
        )
    np.testing.assert_allclose(
        outputs, hidden @ kernels[1] + biases[1], rtol=1e-12
    )
    gradients = tape.gradient(outputs, given, tf.constant(upstream))
    for gradient, wanted in zip(gradients, expected):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-12, atol=1e-12)


def test_random_bytes_are_uniform_and_independent():
    seed = keras.random.SeedGenerator(1)
    levels = ops.convert_to_numpy(random_bytes(256_000, seed)[1])
    levels = levels.astype("int64")
    counts = np.bincount(levels + 128, minlength=256)
    # Chi squared of 255 degrees of freedom: mean 255, deviation 22.6.
    assert ((counts - 1000.0) ** 2 / 1000).sum() < 255 + 5 * 22.6
    deviations = levels - levels.mean()
    for distance in (1, 2, 4, 8, 64):
        correlation = np.mean(deviations[distance:] * deviations[:-distance])
        # Of independent values it deviates by 1 / sqrt(256,000).
        assert abs(correlation / levels.var()) < 5 / 256_000**0.5


def test_random_bytes_are_those_of_keras_range_of_words():
    """So that a run resumes from an older checkpoint with the same draws."""
    seed, same = (keras.random.SeedGenerator(7) for _ in range(2))
    for size in (0, 6, 63, 4001):
        word, levels = random_bytes(size, seed)
        words = ops.convert_to_numpy(
            keras.random.randint(
                (size // 4 + 2,), -(2**31), 2**31 - 1, dtype="int32", seed=same
            )
        )
        assert int(word) == words[0]
        np.testing.assert_array_equal(
            ops.convert_to_numpy(levels), words[1:].view("int8")[:size]
        )
