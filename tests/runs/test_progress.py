"""The callback that saves a run and ends it, and its history."""

import json
import math
import time

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.runs.checkpoints import EpochWeights
from relative_attention.runs.progress import RunHistory
from relative_attention.runs.progress import RunProgress
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.training import AveragingAdam
from relative_attention.training import read_training_table

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

    def start(is_chief=True, signals=None, report=print, **training):
        progress = RunProgress(
            tmp_path,
            TrainingSection(**training),
            Machine(is_chief),
            lambda step: step % 3 == 0,
            signals,
            run={"update_tokens": 512},
            report=report,
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
    lines = []
    progress = start(report=lines.append)
    progress.restore(model)
    assert lines == ["resuming after update 6"]
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


@pytest.mark.parametrize(
    ("training", "step", "seconds", "is_due"),
    [
        ({}, 6, 1e9, False),
        ({"save_every": 3}, 6, 0.0, True),
        ({"save_every": 3}, 7, 1e9, False),
        ({"save_minutes": 0.5}, 7, 29.0, False),
        ({"save_minutes": 0.5}, 7, 30.0, True),
        ({"save_every": 3, "save_minutes": 0.5}, 7, 30.0, True),
    ],
    ids=str,
)
def test_checkpoint_is_due_by_steps_or_by_time(
    start, training, step, seconds, is_due, tmp_path, monkeypatch
):
    progress = start(**training)
    progress.validate_at = lambda step: False
    progress.step = step - 1
    now = time.perf_counter()
    progress._last_save = now - seconds
    monkeypatch.setattr("time.perf_counter", lambda: now)
    progress.on_train_batch_end(0, {"loss": 1.0})
    assert (tmp_path / "checkpoints").exists() == is_due


# === When a run ends before its last step ===


@pytest.mark.parametrize(
    ("training", "losses", "seconds", "is_over"),
    [
        ({}, range(9), 1e9, False),
        ({"early_stopping": 2}, (), 0.0, False),
        ({"early_stopping": 2}, (2.0, 3.0), 0.0, False),
        ({"early_stopping": 2}, (2.0, 3.0, 3.0), 0.0, True),
        ({"early_stopping": 2}, (2.0, 3.0, 1.0), 0.0, False),
        # As good is no better.
        ({"early_stopping": 2}, (2.0, 2.0, 2.0), 0.0, True),
        # The first counts as the best of losses that are not finite.
        ({"early_stopping": 2}, (math.nan, math.inf, math.nan), 0.0, True),
        ({"minutes": 1.5}, (1.0,), 89.0, False),
        ({"minutes": 1.5}, (1.0,), 90.0, True),
    ],
    ids=str,
)
def test_run_ends_by_its_rule(start, training, losses, seconds, is_over):
    progress = start(**training)
    progress.history.records = [
        {"val_loss": loss, "seconds": seconds} for loss in losses
    ]
    assert progress.is_over() is is_over


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (
            {"early_stopping": 1},
            "training ends after update 6: 1 validation without a better one "
            "(`training.early_stopping` 1)",
        ),
        (
            {"minutes": 1e-9},
            "training ends after update 3: the time is up "
            "(`training.minutes` 1e-09)",
        ),
    ],
    ids=["early stopping", "time"],
)
def test_validation_that_ends_the_run_stops_fit_and_says_why(
    start, training, reason
):
    lines = []
    progress = start(report=lines.append, **training)
    progress.model.stop_training = False
    for loss in (1.0, 2.0):
        if not progress.model.stop_training:
            assert lines == []
            train(progress, loss)
    assert progress.model.stop_training
    assert lines == [reason]


# Two machines whose translations differ by one word at the third validation.
BLEU_OF_FIRST = (20.0, 19.0, 21.0, 20.0)
BLEU_OF_SECOND = (20.0, 19.0, 18.0, 17.0)


class OneOfSeveral:
    """A machine whose flag the others see."""

    def __init__(self, is_chief, flags):
        self.is_chief = is_chief
        self.flags = flags
        self.answer = None

    def any(self, flag):
        self.flags.append(flag)
        return self.answer


def are_over(directory, sections, scores, seconds=0.0):
    """What each machine decides, once all have been asked."""
    flags = []
    runs = []
    for number, (training, bleu) in enumerate(zip(sections, scores)):
        run = RunProgress(
            directory,
            TrainingSection(best_by="bleu", **training),
            OneOfSeveral(number == 0, flags),
            lambda step: False,
        )
        run.history.records = [
            {"val_bleu": x, "seconds": seconds} for x in bleu
        ]
        runs.append(run)
    for run in runs:
        run.is_over()
    # Each asks once, whatever it finds, as the others wait for it.
    assert len(flags) == len(runs)
    for run in runs:
        run.cluster.answer = any(flags)
    return [run.is_over() for run in runs]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_machines_end_when_the_first_has_stopped_getting_better(
    number, tmp_path
):
    sections = [{"early_stopping": 2}] * 2
    for scores in (
        (BLEU_OF_FIRST, BLEU_OF_SECOND),
        (BLEU_OF_SECOND, BLEU_OF_FIRST),
    ):
        first_alone = are_over(tmp_path, sections[:1], [scores[0][:number]])
        both = are_over(tmp_path, sections, [bleu[:number] for bleu in scores])
        assert both == first_alone * 2


def test_time_is_up_when_it_is_on_any_machine(tmp_path):
    sections = [{"minutes": 60}, {"minutes": 1}]
    scores = [BLEU_OF_FIRST[:1]] * 2
    assert are_over(tmp_path, sections, scores, seconds=70.0) == [True, True]


# === The history ===


def history(best_by, *values):
    result = RunHistory(".", best_by)
    result.records = [{f"val_{best_by}": value} for value in values]
    return result


@pytest.mark.parametrize(
    ("best_by", "before", "value", "is_best"),
    [
        ("loss", (), 5.0, True),
        ("loss", (5.0, 3.0), 4.0, False),
        ("loss", (5.0, 3.0), 3.0, False),
        ("loss", (5.0, 3.0), 2.0, True),
        ("loss", (math.nan,), 9.0, True),
        ("loss", (), math.nan, False),
        ("loss", (9.0,), -math.inf, False),
        ("bleu", (20.0,), 21.0, True),
        ("bleu", (20.0,), 19.0, False),
    ],
    ids=str,
)
def test_best_is_better_than_all_before(best_by, before, value, is_best):
    record = {f"val_{best_by}": value}
    assert history(best_by, *before).is_best(record) is is_best


@pytest.mark.parametrize(
    ("values", "expected"),
    [((), 0), ((3.0,), 0), ((3.0, 4.0), 1), ((3.0, 4.0, 3.0), 2)],
    ids=str,
)
def test_validations_since_the_best_are_counted(values, expected):
    assert history("loss", *values).since_best() == expected
    assert history("bleu", *(-value for value in values)).since_best() == (
        expected
    )


def test_files_hold_the_records(tmp_path):
    result = RunHistory(tmp_path)
    result.records = [{"epoch": 1, "step": 4, "val_loss": 0.5}]
    result.write()
    assert json.loads((tmp_path / "history.json").read_text()) == result.records
    assert read_training_table(tmp_path / "training.csv") == result.records
