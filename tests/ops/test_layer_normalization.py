import importlib

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import layer_normalization

B, T, D = 2, 5, 11


# The package gives the function the name of its file.
MODULE = importlib.import_module("relative_attention.ops.layer_normalization")


@pytest.fixture(params=[True, False], ids=["own", "keras"])
def kernels(request, monkeypatch):
    """Its own way of computing, and Keras' where that was not measured."""
    if request.param and keras.backend.backend() == "torch":
        pytest.skip("PyTorch has Keras' own")
    if not request.param and not hasattr(ops, "layer_normalization"):
        pytest.skip("this Keras has none of its own")
    monkeypatch.setattr(MODULE, "prefers_own_kernels", lambda: request.param)


@pytest.fixture
def arguments(rng):
    """Rows that are not centred, a scale and a shift."""
    return [
        (3 * rng.normal(size=(B, T, D)) + 2).astype("float32"),
        rng.normal(size=D).astype("float32"),
        rng.normal(size=D).astype("float32"),
    ]


def reference(inputs, gamma, beta, epsilon):
    inputs = inputs.astype("float64")
    mean = inputs.mean(-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(-1, keepdims=True)
    return (inputs - mean) / np.sqrt(variance + epsilon) * gamma + beta


def test_layer_normalization_by_hand(kernels):
    # Mean 2, variance 1, and epsilon so that the root is 2.
    inputs = ops.array([[1.0, 3.0]])
    result = layer_normalization(
        inputs, ops.array([1.0, 10.0]), ops.array([0.0, 100.0]), 3.0
    )
    np.testing.assert_allclose(result, [[-0.5, 105]], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_layer_normalization_is_the_formula(arguments, epsilon, kernels):
    np.testing.assert_allclose(
        layer_normalization(*arguments, epsilon),
        reference(*arguments, epsilon),
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
            (reference(*moved, epsilon) * weights).sum() for moved in shifted
        )
        np.testing.assert_allclose(
            (result * direction).sum(),
            (above - below) / (2 * step),
            rtol=1e-5,
            atol=1e-5,
        )


def test_layer_normalization_has_kerass_gradients(arguments, gradients, rng):
    weights = ops.array(rng.normal(size=(B, T, D)).astype("float32"))
    keras_layer = keras.layers.LayerNormalization(epsilon=1e-6)
    keras_layer.build((B, T, D))
    keras_layer.set_weights(arguments[1:])
    expected = gradients(
        lambda inputs: ops.sum(keras_layer(inputs) * weights),
        arguments[:1],
        keras_layer.trainable_variables,
    )
    results = gradients(
        lambda *tensors: ops.sum(layer_normalization(*tensors, 1e-6) * weights),
        arguments,
    )
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_layer_normalization_keeps_half_precision(arguments, dtype, gradients):
    inputs, gamma, beta = arguments
    result = layer_normalization(ops.cast(inputs, dtype), gamma, beta, 1e-6)
    assert keras.backend.standardize_dtype(result.dtype) == dtype
    np.testing.assert_allclose(
        ops.cast(result, "float32"),
        reference(*arguments, 1e-6),
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


@pytest.mark.parametrize("shape", [(D,), (3, D), (2, 1, 5, D)], ids=str)
def test_layer_normalization_takes_any_number_of_axes(rng, shape):
    inputs = rng.normal(size=shape).astype("float32")
    gamma = rng.normal(size=D).astype("float32")
    result = layer_normalization(ops.array(inputs), gamma, gamma, 1e-6)
    assert tuple(result.shape) == shape
    np.testing.assert_allclose(
        result, reference(inputs, gamma, gamma, 1e-6), rtol=1e-5, atol=1e-5
    )
