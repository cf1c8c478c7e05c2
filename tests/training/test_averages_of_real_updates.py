"""Averages of updates that were made, and of the weights that they are of."""

import keras
import numpy as np
import pytest

from relative_attention.training import AveragingAdam
from relative_attention.training import averaged_weights

MOMENTUM = 0.3


def compiled(**options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, name="first"),
            keras.layers.Dense(2, name="second"),
        ]
    )
    options = {"ema_momentum": MOMENTUM, **options}
    model.compile(AveragingAdam(0.1, **options), "mse", run_eagerly=True)
    return model


@pytest.fixture
def data(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(6, 2))


def fit(model, data, batch_size):
    model.fit(*data, batch_size=batch_size, epochs=2, shuffle=False, verbose=0)


def values(variables):
    return [np.array(variable) for variable in variables]


def test_parts_of_an_update_do_not_move_the_average(data):
    # Each of three rows is as heavy as the others: one update of them all.
    whole, parts = compiled(), compiled(gradient_accumulation_steps=3)
    fit(whole, data, 3)
    fit(parts, data, 1)
    for average, expected in zip(
        parts.optimizer.averages, whole.optimizer.averages
    ):
        np.testing.assert_allclose(average, expected, atol=1e-5)


def test_average_waits_for_the_rest_of_an_update(data):
    inputs, outputs = data
    model = compiled(gradient_accumulation_steps=2)
    rows = [(inputs[[n]], outputs[[n]]) for n in range(5)]
    model.train_on_batch(*rows[0])
    before = values(model.weights)
    with averaged_weights(model):
        # There is none before the first update.
        for weight, raw in zip(values(model.weights), before):
            np.testing.assert_array_equal(weight, raw)
    model.train_on_batch(*rows[1])
    first = values(model.optimizer.averages)
    for average, weight in zip(first, values(model.weights)):
        np.testing.assert_array_equal(average, weight)
    model.train_on_batch(*rows[2])
    for average, expected in zip(model.optimizer.averages, first):
        np.testing.assert_array_equal(average, expected)
    model.train_on_batch(*rows[3])
    # The second update, number 1: a momentum of 1 / (1 + 9).
    for average, expected, weight in zip(
        model.optimizer.averages, first, model.weights
    ):
        np.testing.assert_allclose(
            average, 0.1 * expected + 0.9 * np.array(weight), atol=1e-6
        )


def averages_by_path(model):
    return {
        variable.path: np.array(average)
        for variable, average in zip(
            model.optimizer._trainable_variables, model.optimizer.averages
        )
    }


def test_averages_are_of_the_weights_that_were_trained(data):
    model = compiled()
    fit(model, data, 4)
    averages = averages_by_path(model)
    raw = values(model.weights)
    assert len(averages) == 4
    # All that there are afterwards have other places in the model's list.
    model.get_layer("first").trainable = False
    with averaged_weights(model):
        for weight in model.weights:
            np.testing.assert_array_equal(weight, averages[weight.path])
    for weight, expected in zip(values(model.weights), raw):
        np.testing.assert_array_equal(weight, expected)


def test_weights_that_the_optimizer_does_not_know_stay(data):
    model = compiled()
    model.get_layer("first").trainable = False
    model.compile(
        AveragingAdam(0.1, ema_momentum=MOMENTUM), "mse", run_eagerly=True
    )
    fit(model, data, 4)
    averages = averages_by_path(model)
    raw = {weight.path: np.array(weight) for weight in model.weights}
    assert len(averages) == 2
    model.get_layer("first").trainable = True
    with averaged_weights(model):
        for weight in model.weights:
            expected = {**raw, **averages}[weight.path]
            np.testing.assert_array_equal(weight, expected)


@pytest.mark.only_on("tensorflow", reason="others want all gradients")
def test_weights_that_are_frozen_later_keep_an_average(data):
    model = compiled()
    fit(model, data, 4)
    model.get_layer("first").trainable = False
    model.make_train_function(force=True)
    frozen = values(model.get_layer("first").weights)
    fit(model, data, 1)
    for weight, expected in zip(model.get_layer("first").weights, frozen):
        np.testing.assert_array_equal(weight, expected)
        # 12 updates later the average of what does not change is that.
        average = averages_by_path(model)[weight.path]
        np.testing.assert_allclose(average, expected, atol=1e-6)
