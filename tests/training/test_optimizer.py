"""The optimizer, and models that have its averages for a while."""

import random

import keras
import numpy as np
import pytest

from relative_attention.training import AveragingAdam
from relative_attention.training import averaged_weights
from relative_attention.training.optimizer import AveragedValidation

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


def averages_by_path(model):
    names = [v.path for v in model.optimizer._trainable_variables]
    return dict(zip(names, averages(model), strict=True))


def assert_same(arrays, others, **tolerance):
    for array, other in zip(arrays, others, strict=True):
        np.testing.assert_allclose(array, other, **{"rtol": 0, **tolerance})


def compiled(dtype=None, optimizer=AveragingAdam, **options):
    random.seed(1)
    if optimizer is AveragingAdam:
        options = {"ema_momentum": MOMENTUM, **options}
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, dtype=dtype, name="first"),
            keras.layers.Dense(2, dtype=dtype, name="second"),
        ]
    )
    # Nothing here is about graphs, which would be rebuilt for each test.
    model.compile(optimizer(0.1, **options), "mse", run_eagerly=True)
    return model


@pytest.fixture
def data(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(6, 2))


def fit(model, data, epochs=2, batch_size=1, **arguments):
    model.fit(
        *data,
        batch_size=batch_size,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        **arguments,
    )
    return model


def expected_averages(weights):
    result = weights[0]
    for number, step in enumerate(weights):
        momentum = min(MOMENTUM, number / (number + 9))
        result = [
            momentum * average + (1 - momentum) * weight
            for average, weight in zip(result, step)
        ]
    return result


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        # JAX has float64 only where it is asked for.
        pytest.param(
            "float64", marks=pytest.mark.only_on("tensorflow", reason="float64")
        ),
        "mixed_float16",
    ],
)
def test_averages_are_those_of_the_formula(data, dtype):
    # 12 steps: the momentum reaches its limit after the sixth.
    record = Record()
    model = fit(compiled(dtype), data, callbacks=[record])
    assert len(averages(model)) == 4
    expected = expected_averages(record.weights)
    assert_same(averages(model), expected, rtol=1e-5, atol=1e-6)


def test_training_is_that_of_adam(data):
    model = fit(compiled(), data)
    adam = fit(compiled(optimizer=keras.optimizers.Adam), data)
    # PyTorch has an Adam of its own, and so has TensorFlow, to which
    # 1 - 0.999 is what float32 makes of it: up to 3e-5 off.
    assert_same(values(model), values(adam), rtol=1e-5, atol=1e-5)


def test_weights_are_averages_within_and_the_same_after(data):
    model = fit(compiled(), data)
    before = values(model)
    with pytest.raises(KeyboardInterrupt):
        with averaged_weights(model):
            assert_same(values(model), averages(model))
            with averaged_weights(model):
                pass
            inside = values(model)
            raise KeyboardInterrupt
    assert_same(values(model), before)
    for raw, average in zip(before, inside):
        assert np.abs(raw - average).max() > 1e-3


@pytest.mark.parametrize(
    "options",
    [{"ema_momentum": None}, {"optimizer": keras.optimizers.SGD}],
    ids=["no momentum", "SGD"],
)
def test_without_averages_nothing_changes(data, options):
    model = fit(compiled(**options), data, epochs=1)
    before = values(model)
    with averaged_weights(model):
        assert_same(values(model), before)
    # Two counters, and two variables a weight at most.
    assert len(model.optimizer.variables) <= 2 + 2 * 4


def test_validation_has_the_averages_and_training_has_not(data):
    history = keras.callbacks.History()
    model = fit(
        compiled(),
        data,
        validation_data=data,
        callbacks=[AveragedValidation(), history],
    )
    plain = fit(compiled(), data)
    assert_same(values(model), values(plain))
    with averaged_weights(plain):
        loss = plain.evaluate(*data, verbose=0)
    assert history.history["val_loss"][-1] == pytest.approx(loss, rel=1e-6)
    assert abs(plain.evaluate(*data, verbose=0) - loss) > 1e-3


def test_validation_that_fails_can_be_undone(data):
    class Fail(keras.callbacks.Callback):
        def on_test_batch_begin(self, batch, logs=None):
            raise OSError("lost")

    model = fit(compiled(), data)
    before = values(model)
    validation = AveragedValidation()
    with pytest.raises(OSError, match="lost"):
        model.evaluate(*data, verbose=0, callbacks=[validation, Fail()])
    validation.restore()
    assert_same(values(model), before)


def test_saved_optimizer_is_the_same(data, tmp_path):
    model = fit(compiled(), data)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = True
    assert optimizer_of(loaded).ema_momentum == MOMENTUM
    assert_same(averages(loaded), averages(model))
    assert_same(averages(fit(loaded, data, 1)), averages(fit(model, data, 1)))


@pytest.mark.parametrize("momentum", [1.0, "1"])
def test_momentum_out_of_range_is_refused(momentum):
    with pytest.raises(ValueError, match=f"ema_momentum={momentum!r}"):
        AveragingAdam(ema_momentum=momentum)


# === Of which updates, and of which weights ===


def test_parts_of_an_update_do_not_move_the_average(data):
    # Each of three rows is as heavy as the others: one update of them all.
    whole = fit(compiled(), data, batch_size=3)
    parts = fit(compiled(gradient_accumulation_steps=3), data)
    assert_same(averages(parts), averages(whole), atol=1e-5)


def test_average_waits_for_the_rest_of_an_update(data):
    inputs, outputs = data
    model = compiled(gradient_accumulation_steps=2)
    rows = [(inputs[[n]], outputs[[n]]) for n in range(5)]
    model.train_on_batch(*rows[0])
    before = values(model)
    with averaged_weights(model):
        # There is none before the first update.
        assert_same(values(model), before)
    model.train_on_batch(*rows[1])
    first = averages(model)
    assert_same(first, values(model))
    model.train_on_batch(*rows[2])
    assert_same(averages(model), first)
    model.train_on_batch(*rows[3])
    # The second update, number 1: a momentum of 1 / (1 + 9).
    expected = [0.1 * a + 0.9 * w for a, w in zip(first, values(model))]
    assert_same(averages(model), expected, atol=1e-6)


@pytest.mark.parametrize("is_frozen_first", [True, False])
def test_averages_are_of_the_weights_that_were_trained(data, is_frozen_first):
    model = compiled()
    model.get_layer("first").trainable = not is_frozen_first
    model.compile(AveragingAdam(0.1, ema_momentum=0.3), "mse", run_eagerly=True)
    fit(model, data)
    by_path = averages_by_path(model)
    assert len(by_path) == (2 if is_frozen_first else 4)
    raw = values(model)
    expected = {w.path: np.array(w) for w in model.weights} | by_path
    # Other weights are trainable now, which have other places in lists.
    model.get_layer("first").trainable = is_frozen_first
    with averaged_weights(model):
        for weight in model.weights:
            np.testing.assert_array_equal(weight, expected[weight.path])
    assert_same(values(model), raw)
