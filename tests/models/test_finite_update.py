"""Lengths, clipping and updates of gradients, solved by hand."""

import keras
import numpy as np
import pytest

from relative_attention.models.finite_update import clip_gradients
from relative_attention.models.finite_update import gradient_norm
from relative_attention.models.finite_update import update_all_replicas

pytestmark = pytest.mark.only_on("tensorflow", reason="its step is our own")

# Lengths 5 and 12, together 13.
GRADIENTS = [np.array([3.0, 4.0], "float32"), np.array([12.0], "float32")]


def scaled(optimizer):
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8)
    optimizer.build([keras.Variable([0.0])])
    return optimizer


def test_norm_is_the_length_of_all_without_the_loss_scale():
    sgd = keras.optimizers.SGD()
    assert float(gradient_norm(sgd, [*GRADIENTS, None])) == 13
    times_eight = [8 * gradient for gradient in GRADIENTS]
    assert float(gradient_norm(scaled(sgd), times_eight)) == 13


@pytest.mark.parametrize(
    "limits, expected",
    [
        ({}, [[3, 4], [12]]),
        ({"clipnorm": 10.0}, [[3, 4], [10]]),
        ({"global_clipnorm": 6.5}, [[1.5, 2], [6]]),
        ({"clipvalue": 3.5}, [[3, 3.5], [3.5]]),
    ],
    ids=["none", "clipnorm", "global_clipnorm", "clipvalue"],
)
def test_gradients_are_clipped_as_by_the_optimizer(limits, expected):
    for scale in (1, 8):
        optimizer = keras.optimizers.SGD(**limits)
        if scale == 8:
            optimizer = scaled(optimizer)
        clipped = clip_gradients(optimizer, [scale * g for g in GRADIENTS])
        for gradient, values in zip(clipped, expected):
            np.testing.assert_allclose(gradient, scale * np.array(values))


@pytest.mark.parametrize("is_usable", [True, False])
def test_update_is_made_if_it_is_usable(is_usable):
    import tensorflow as tf

    variables = [keras.Variable([1.0, 1.0]), keras.Variable([7.0])]
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build(variables)
    update_all_replicas(
        optimizer,
        variables,
        [tf.constant([2.0, 4.0]), None],
        tf.constant(is_usable),
    )
    expected = [0.0, -1.0] if is_usable else [1.0, 1.0]
    np.testing.assert_array_equal(variables[0], expected)
    np.testing.assert_array_equal(variables[1], [7.0])
    assert int(optimizer.iterations) == is_usable
