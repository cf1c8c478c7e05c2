"""The optimizer, and models that have its averages for a while."""

import keras
import numpy as np
import pytest

from relative_attention.training import AveragedValidation
from relative_attention.training import AveragingAdam
from relative_attention.training import averaged_weights

MOMENTUM = 0.4


class Record(keras.callbacks.Callback):
    """The weights after every step."""

    def __init__(self):
        super().__init__()
        self.weights = []

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(values(self.model))


def values(model):
    return [np.array(weight) for weight in model.weights]


def optimizer_of(model):
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def averages(model):
    return [np.array(average) for average in optimizer_of(model).averages]


def compiled(dtype=None, **options):
    keras.utils.set_random_seed(1)
    options = {"ema_momentum": MOMENTUM, **options}
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, dtype=dtype)]
    )
    # Nothing here is about graphs, which would be made anew for each test.
    model.compile(AveragingAdam(0.1, **options), "mse", run_eagerly=True)
    return model


@pytest.fixture
def data(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=(5, 2))


def fit(model, data, steps, **arguments):
    # A row is a batch; five are an epoch.
    model.fit(
        *data,
        batch_size=1,
        epochs=steps // 5,
        shuffle=False,
        verbose=0,
        **arguments,
    )


def expected_averages(weights):
    result = weights[0]
    for number, step in enumerate(weights):
        momentum = min(MOMENTUM, number / (number + 9))
        result = [
            momentum * average + (1 - momentum) * weight
            for average, weight in zip(result, step)
        ]
    return result


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_averages_are_those_of_the_formula(data, dtype):
    # 10 steps: the momentum reaches its limit after the sixth.
    record = Record()
    model = compiled(dtype)
    fit(model, data, 10, callbacks=[record])
    for average, expected in zip(
        averages(model), expected_averages(record.weights)
    ):
        np.testing.assert_allclose(average, expected, rtol=1e-5, atol=1e-6)
    assert len(averages(model)) == 2


def test_training_is_that_of_adam(data):
    model = compiled()
    fit(model, data, 10)
    adam = compiled()
    adam.compile(keras.optimizers.Adam(0.1), "mse", run_eagerly=True)
    fit(adam, data, 10)
    for weight, expected in zip(values(model), values(adam)):
        # PyTorch has an Adam of its own, and so has TensorFlow, to which
        # 1 - 0.999 is what float32 makes of it: up to 3e-5 off.
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-5)


def test_several_fits_equal_one(data):
    once, twice = compiled(), compiled()
    fit(once, data, 10)
    for _ in range(2):
        fit(twice, data, 5)
    for part in (values, averages):
        for array, expected in zip(part(twice), part(once)):
            np.testing.assert_array_equal(array, expected)
        assert part(once)


def test_weights_are_averages_within_and_the_same_after(data):
    model = compiled()
    fit(model, data, 10)
    before = values(model)
    with averaged_weights(model):
        for weight, average in zip(values(model), averages(model)):
            np.testing.assert_array_equal(weight, average)
        with averaged_weights(model):
            pass
        inside = values(model)
    for weight, raw, average in zip(values(model), before, inside):
        np.testing.assert_array_equal(weight, raw)
        assert np.abs(raw - average).max() > 1e-3


def test_weights_are_the_same_after_an_exception(data):
    model = compiled()
    fit(model, data, 10)
    before = values(model)
    with pytest.raises(KeyboardInterrupt):
        with averaged_weights(model):
            raise KeyboardInterrupt
    for weight, raw in zip(values(model), before):
        np.testing.assert_array_equal(weight, raw)


def test_there_is_no_average_before_the_first_step():
    model = compiled()
    model.optimizer.build(model.trainable_variables)
    before = values(model)
    with averaged_weights(model):
        for weight, raw in zip(values(model), before):
            np.testing.assert_array_equal(weight, raw)


@pytest.mark.parametrize(
    "optimizer",
    [AveragingAdam(ema_momentum=None), keras.optimizers.SGD()],
    ids=["no momentum", "SGD"],
)
def test_optimizer_without_averages_changes_nothing(data, optimizer):
    model = compiled()
    model.compile(optimizer, "mse", run_eagerly=True)
    fit(model, data, 5)
    before = values(model)
    with averaged_weights(model):
        for weight, raw in zip(values(model), before):
            np.testing.assert_array_equal(weight, raw)
    # Two counters, and two variables a weight at most.
    assert len(model.optimizer.variables) <= 6


def test_validation_has_the_averages_and_training_has_not(data):
    model, plain = compiled(), compiled()
    history = keras.callbacks.History()
    fit(
        model,
        data,
        10,
        validation_data=data,
        callbacks=[AveragedValidation(), history],
    )
    fit(plain, data, 10)
    for weight, expected in zip(values(model), values(plain)):
        np.testing.assert_array_equal(weight, expected)
    with averaged_weights(plain):
        loss = plain.evaluate(*data, verbose=0)
    assert history.history["val_loss"][-1] == pytest.approx(loss, rel=1e-6)
    assert abs(plain.evaluate(*data, verbose=0) - loss) > 1e-3


def test_validation_that_fails_can_be_undone(data):
    class Fail(keras.callbacks.Callback):
        def on_test_batch_begin(self, batch, logs=None):
            raise OSError("lost")

    model = compiled()
    fit(model, data, 5)
    before = values(model)
    validation = AveragedValidation()
    with pytest.raises(OSError, match="lost"):
        model.evaluate(*data, verbose=0, callbacks=[validation, Fail()])
    validation.restore()
    for weight, raw in zip(values(model), before):
        np.testing.assert_array_equal(weight, raw)


def test_saved_optimizer_is_the_same(data, tmp_path):
    model = compiled()
    fit(model, data, 10)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = True
    assert optimizer_of(loaded).ema_momentum == MOMENTUM
    for average, expected in zip(averages(loaded), averages(model)):
        np.testing.assert_array_equal(average, expected)
    for each in (model, loaded):
        fit(each, data, 5)
    for average, expected in zip(averages(loaded), averages(model)):
        np.testing.assert_array_equal(average, expected)


@pytest.mark.parametrize("momentum", [1.0, -0.1])
def test_momentum_out_of_range_is_refused(momentum):
    with pytest.raises(ValueError, match=f"ema_momentum={momentum}"):
        AveragingAdam(ema_momentum=momentum)


# === Of which updates, and of which weights ===


def compiled_pair(**options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, name="first"),
            keras.layers.Dense(2, name="second"),
        ]
    )
    options = {"ema_momentum": 0.3, **options}
    model.compile(AveragingAdam(0.1, **options), "mse", run_eagerly=True)
    return model


@pytest.fixture
def six_rows(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(6, 2))


def fit_twice(model, data, batch_size):
    model.fit(*data, batch_size=batch_size, epochs=2, shuffle=False, verbose=0)


def test_parts_of_an_update_do_not_move_the_average(six_rows):
    # Each of three rows is as heavy as the others: one update of them all.
    whole, parts = compiled_pair(), compiled_pair(gradient_accumulation_steps=3)
    fit_twice(whole, six_rows, 3)
    fit_twice(parts, six_rows, 1)
    for average, expected in zip(
        parts.optimizer.averages, whole.optimizer.averages
    ):
        np.testing.assert_allclose(average, expected, atol=1e-5)


def test_average_waits_for_the_rest_of_an_update(six_rows):
    inputs, outputs = six_rows
    model = compiled_pair(gradient_accumulation_steps=2)
    rows = [(inputs[[n]], outputs[[n]]) for n in range(5)]
    model.train_on_batch(*rows[0])
    before = values(model)
    with averaged_weights(model):
        # There is none before the first update.
        for weight, raw in zip(values(model), before):
            np.testing.assert_array_equal(weight, raw)
    model.train_on_batch(*rows[1])
    first = averages(model)
    for average, weight in zip(first, values(model)):
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


def test_averages_are_of_the_weights_that_were_trained(six_rows):
    model = compiled_pair()
    fit_twice(model, six_rows, 4)
    averages = averages_by_path(model)
    raw = values(model)
    assert len(averages) == 4
    # All that there are afterwards have other places in the model's list.
    model.get_layer("first").trainable = False
    with averaged_weights(model):
        for weight in model.weights:
            np.testing.assert_array_equal(weight, averages[weight.path])
    for weight, expected in zip(values(model), raw):
        np.testing.assert_array_equal(weight, expected)


def test_weights_that_the_optimizer_does_not_know_stay(six_rows):
    model = compiled_pair()
    model.get_layer("first").trainable = False
    model.compile(AveragingAdam(0.1, ema_momentum=0.3), "mse", run_eagerly=True)
    fit_twice(model, six_rows, 4)
    averages = averages_by_path(model)
    raw = {weight.path: np.array(weight) for weight in model.weights}
    assert len(averages) == 2
    model.get_layer("first").trainable = True
    with averaged_weights(model):
        for weight in model.weights:
            expected = {**raw, **averages}[weight.path]
            np.testing.assert_array_equal(weight, expected)


@pytest.mark.only_on("tensorflow", reason="others want all gradients")
def test_weights_that_are_frozen_later_keep_an_average(six_rows):
    model = compiled_pair()
    fit_twice(model, six_rows, 4)
    model.get_layer("first").trainable = False
    model.make_train_function(force=True)
    frozen = values(model.get_layer("first"))
    fit_twice(model, six_rows, 1)
    for weight, expected in zip(model.get_layer("first").weights, frozen):
        np.testing.assert_array_equal(weight, expected)
        # 12 updates later the average of what does not change is that.
        average = averages_by_path(model)[weight.path]
        np.testing.assert_allclose(average, expected, atol=1e-6)
