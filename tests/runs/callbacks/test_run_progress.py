"""The callback that saves a run and ends it, called by hand."""

import json
import types

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.runs.callbacks.epoch_weights import EpochWeights
from relative_attention.runs.callbacks.run_progress import RunProgress
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.training import AveragingAdam

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="training is TensorFlow's"
)


@pytest.fixture(scope="module")
def model():
    """Two weights, and an optimizer that keeps their average."""
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(AveragingAdam(0.1, ema_momentum=0.5), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


class Machine:
    def __init__(self, is_chief=True):
        self.is_chief = is_chief

    def any(self, flag):
        return flag


class Signals:
    received = None

    def leave(self):
        raise SystemExit(143)


@pytest.fixture
def start(model, tmp_path):
    """`start(save_every=2)`: a run, validated after every third update."""

    def start(is_chief=True, signals=None, **training):
        progress = RunProgress(
            tmp_path,
            TrainingSection(**training),
            Machine(is_chief),
            lambda step: step % 3 == 0,
            signals,
            run={"update_tokens": 512},
        )
        progress.set_model(model)
        progress.on_train_begin()
        return progress

    return start


def fill(model, value):
    model.set_weights([np.full(w.shape, value) for w in model.weights])


def train(progress, *losses):
    """Three updates, and a validation, for each loss; weights of its value."""
    for loss in losses:
        fill(progress.model, loss)
        for batch in range(3):
            progress.on_train_batch_end(batch, {"loss": loss})
        epoch = len(progress.history.records)
        progress.on_epoch_end(epoch, {"loss": loss, "val_loss": loss})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_best_weights_and_the_last_checkpoints_are_kept(start, tmp_path):
    train(start(keep_checkpoints=2), 3.0, 1.0, 2.0)
    assert names(tmp_path / "checkpoints") == ["step-00000006", "step-00000009"]
    for name in ("best.safetensors", "model.safetensors"):
        for array in load_arrays(tmp_path / name).values():
            np.testing.assert_array_equal(array, 1.0)
    history = json.loads((tmp_path / "history.json").read_text())
    assert [
        (record["epoch"], record["step"], record["val_loss"])
        for record in history
    ] == [(1, 3, 3.0), (2, 6, 1.0), (3, 9, 2.0)]


def test_average_is_what_is_kept_and_not_what_is_trained(
    start, model, tmp_path
):
    fill(model, 1.0)
    for _, average in model.optimizer.averaged_variables():
        average.assign(np.full(average.shape, 7.0))
    # Before the first update there is no average.
    model.optimizer.iterations.assign(1)
    start().on_epoch_end(0, {"val_loss": 1.0})
    model.optimizer.iterations.assign(0)
    for weight in model.weights:
        np.testing.assert_array_equal(np.asarray(weight), 1.0)
    for array in load_arrays(tmp_path / "best.safetensors").values():
        np.testing.assert_array_equal(array, 7.0)


def test_run_goes_on_where_it_was(start, model):
    train(start(), 3.0, 1.0)
    fill(model, 9.0)
    progress = start()
    progress.restore(model)
    assert progress.step == 6
    assert [record["val_loss"] for record in progress.history.records] == [3, 1]
    for weight in model.weights:
        np.testing.assert_array_equal(np.asarray(weight), 1.0)
    # Time goes on, too.
    progress.on_train_begin()
    train(progress, 2.0)
    seconds = [record["seconds"] for record in progress.history.records]
    assert seconds == sorted(seconds)


def test_history_that_a_crash_undid_is_no_history(start, model, tmp_path):
    train(start(), 3.0)
    history = (tmp_path / "history.json").read_text()
    (tmp_path / "history.json").write_text("[1, 2]")
    start().restore(model)
    assert (tmp_path / "history.json").read_text() == history


def test_run_of_other_updates_is_refused(start, model):
    train(start(), 3.0)
    progress = start()
    progress.checkpointer.run = {"update_tokens": 256}
    with pytest.raises(ra.InputError, match="= 512, now it is 256"):
        progress.restore(model)


def test_checkpoints_between_validations(start, tmp_path):
    progress = start(save_every=2)
    progress.on_train_batch_end(0, {"loss": 1.0})
    assert not (tmp_path / "checkpoints").exists()
    progress.on_train_batch_end(1, {"loss": 1.0})
    assert names(tmp_path / "checkpoints") == ["step-00000002"]


def test_ends_of_epochs_stay_as_long_as_a_checkpoint_needs_them(
    start, model, tmp_path
):
    progress = start(keep_checkpoints=2)
    ends = EpochWeights(tmp_path, 2, lambda step: step % 2 == 0)
    progress.epoch_weights = ends

    def steps(paths):
        return [int(path.stem.removeprefix("step-")) for path in paths]

    # Epochs end with every second update, checkpoints come after every third.
    train(progress, 1.0, 2.0, 3.0, 4.0)
    assert names(tmp_path / "checkpoints") == ["step-00000009", "step-00000012"]
    # From 9, whose last two are 6 and 8, a run may go on or end.
    assert sorted(steps((tmp_path / "epochs").iterdir())) == [6, 8, 10, 12]
    assert steps(ends.last(12)) == [10, 12]
    assert steps(ends.last(9)) == [6, 8]
    for path, value in zip(ends.last(9), (2.0, 3.0)):
        for array in load_arrays(path).values():
            np.testing.assert_array_equal(array, value)


def test_epochs_between_two_checkpoints_do_not_pile_up(start, tmp_path):
    progress = start(keep_checkpoints=2)
    ends = EpochWeights(tmp_path, 2, lambda step: True)
    progress.epoch_weights = ends
    progress.validate_at = lambda step: step % 10 == 0
    for step in range(1, 30):
        progress.on_train_batch_end(step, {"loss": 1.0})
        if progress.validate_at(step):
            progress.on_epoch_end(0, {"loss": 1.0, "val_loss": 1.0})
    expected = [9, 10, 19, 20, 28, 29]
    assert names(tmp_path / "epochs") == [
        f"step-{step:08}.safetensors" for step in expected
    ]


def test_machine_that_is_not_the_chief_keeps_no_epochs(start, tmp_path):
    progress = start(is_chief=False)
    progress.epoch_weights = EpochWeights(tmp_path, 2, lambda step: True)
    train(progress, 1.0)
    assert not (tmp_path / "epochs").exists()


def test_full_disk_keeps_the_checkpoint_before(start, tmp_path, monkeypatch):
    def fail(arrays, path):
        raise OSError(28, "No space left on device")

    progress = start()
    train(progress, 3.0)
    with monkeypatch.context() as patch:
        patch.setattr(
            "relative_attention.training.checkpoint.save_arrays", fail
        )
        with pytest.raises(OSError, match="No space left"):
            train(progress, 2.0)
    assert names(tmp_path / "checkpoints") == ["step-00000003"]
    again = start()
    again.restore(again.model)
    assert again.step == 3


@pytest.mark.parametrize(
    ("training", "losses", "steps"),
    [
        ({"early_stopping": 2}, (3.0, 1.0, 1.0, 2.0), 12),
        ({"minutes": 1e-9}, (3.0,), 3),
    ],
    ids=["early stopping", "time"],
)
def test_run_ends_by_its_rule(start, training, losses, steps):
    progress = start(**training)
    progress.model.stop_training = False
    for loss in losses:
        assert not progress.model.stop_training
        train(progress, loss)
    assert progress.model.stop_training and progress.is_over()
    assert progress.step == steps


def test_signal_ends_a_run_after_the_step_it_is_at(start, model, tmp_path):
    signals = Signals()
    progress = start(signals=signals)
    progress.on_train_batch_end(0, {"loss": 1.0})
    signals.received = 15
    with pytest.raises(SystemExit):
        progress.on_train_batch_end(1, {"loss": 1.0})
    assert names(tmp_path / "checkpoints") == ["stop-00000002"]
    again = start()
    again.restore(model)
    assert (again.step, again.unvalidated) == (2, None)


def test_signal_in_a_validation_keeps_the_logs_of_training(
    start, model, tmp_path
):
    signals = Signals()
    progress = start(signals=signals)
    for batch in range(3):
        progress.on_train_batch_end(batch, {"loss": 1.5})
    model.stop_evaluating = False
    progress.on_test_batch_end(0)
    assert not model.stop_evaluating
    signals.received = 15
    progress.on_test_batch_end(1)
    assert model.stop_evaluating
    with pytest.raises(SystemExit):
        progress.on_test_end()
    assert names(tmp_path / "checkpoints") == ["stop-00000003"]
    again = start()
    again.restore(model)
    assert (again.step, again.unvalidated) == (3, {"loss": 1.5})
    # The checkpoint of the validation takes the place of the other.
    again.on_epoch_end(0, {"loss": 1.5, "val_loss": 1.0})
    assert again.unvalidated is None
    assert names(tmp_path / "checkpoints") == ["step-00000003"]


def test_machine_that_is_not_the_chief_writes_nothing(start, model, tmp_path):
    progress = start(is_chief=False)
    train(progress, 3.0)
    assert progress.step == 3
    assert names(tmp_path) == []


def test_sections_name_what_the_parts_take(start):
    progress = start(
        keep_checkpoints=7,
        best_by="bleu",
        early_stopping=4,
        minutes=9.0,
        save_every=5,
        save_minutes=2.0,
    )
    parts = types.SimpleNamespace(**vars(progress))
    assert parts.checkpointer.keep == 7
    assert parts.history.best_by == "bleu"
    assert (parts.stop_rule.early_stopping, parts.stop_rule.minutes) == (4, 9.0)
    assert (parts.save_interval.steps, parts.save_interval.minutes) == (5, 2.0)
