import numpy as np
import pytest

from relative_attention.ops.cpu_kernels import feed_forward
from relative_attention.ops.cpu_kernels import layer_normalization
from relative_attention.ops.dropout import Kept

T, D, F = 5, 11, 7
SCALE = 1 / (1 - 0.25)


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
        kept = Kept(tf.constant(factors > 0), SCALE)
        outputs = feed_forward(*given, kept if drops else None)
    np.testing.assert_allclose(
        outputs, hidden @ kernels[1] + biases[1], rtol=1e-12
    )
    gradients = tape.gradient(outputs, given, tf.constant(upstream))
    for gradient, wanted in zip(gradients, expected):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.only_on("tensorflow", reason="its own kernels")
def test_layer_normalization_has_the_derivatives_of_its_equations(rng):
    import tensorflow as tf

    rows, upstream, direction = map(tf.constant, rng.normal(size=(3, T, D)))
    gamma, beta = map(tf.constant, rng.normal(size=(2, D)))

    def equations(rows, gamma, beta, epsilon):
        centered = rows - tf.reduce_mean(rows, axis=-1, keepdims=True)
        variance = tf.reduce_mean(centered**2, axis=-1, keepdims=True)
        return centered / tf.sqrt(variance + epsilon) * gamma + beta

    def derivatives(normalize):
        with tf.GradientTape() as second:
            second.watch(rows)
            with tf.GradientTape() as first:
                first.watch([rows, gamma, beta])
                outputs = normalize(rows, gamma, beta, 1e-3)
                loss = tf.reduce_sum(outputs * upstream)
            gradients = first.gradient(loss, [rows, gamma, beta])
            slope = tf.reduce_sum(gradients[0] * direction)
        return [outputs, *gradients, second.gradient(slope, rows)]

    for ours, theirs in zip(
        derivatives(layer_normalization), derivatives(equations), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
