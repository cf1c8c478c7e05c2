"""What a run saves while it trains, from what it resumes, and when it ends."""

import json
import math
import os
import shutil
import time
import types

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.recipes.sections import TrainingSection
from relative_attention.runs.progress import RunProgress
from relative_attention.runs.run_directory import write_record
from relative_attention.training import AveragingAdam

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="training is TensorFlow's"
)


def make_model(width=1):
    """The smallest with an optimizer that averages and a random generator."""
    inputs = keras.Input((width,))
    outputs = keras.layers.Dropout(0.5, seed=1)(keras.layers.Dense(1)(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(AveragingAdam(0.1, ema_momentum=0.5), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture(scope="module")
def model():
    return make_model()


class Machine:
    """One alone, or one whose flag the others see, in a list."""

    answer = None

    def __init__(self, is_chief=True, flags=None):
        self.is_chief = is_chief
        self.flags = flags
        self.asks_others = flags is not None

    def any(self, flag):
        if self.flags is None:
            return flag
        self.flags.append(flag)
        return self.answer


class Run:
    """`run.start(save_every=2)`: a run, validated after every third update."""

    def __init__(self, directory, model):
        self.directory = directory
        self.model = model
        self.lines = []
        write_record(directory, {})

    def start(self, is_chief=True, per_pass=100, **training):
        progress = RunProgress(
            self.directory,
            TrainingSection(**{"validate_every": 3, **training}),
            Machine(is_chief),
            per_pass,
            10**9,
            {"update_tokens": 512},
            report=self.lines.append,
        )
        progress.set_model(self.model)
        progress.on_train_begin()
        return progress

    def resumed(self, **arguments):
        progress = self.start(**arguments)
        progress.restore(self.model)
        return progress

    def saved(self, *steps, kind="step"):
        """Saves checkpoints, with weights that tell them apart."""
        for step in steps:
            progress = self.start(keep_checkpoints=99)
            fill(self.model, step)
            progress.step = step
            progress._save(kind)

    @property
    def folder(self):
        return self.directory / "checkpoints"

    def names(self, folder="checkpoints"):
        return sorted(path.name for path in (self.directory / folder).iterdir())


@pytest.fixture
def run(tmp_path, model):
    (tmp_path / "run").mkdir()
    return Run(tmp_path / "run", model)


def variables_of(model):
    return [*model.variables, *model.optimizer.variables]


def fill(model, value):
    for variable in variables_of(model):
        variable.assign(np.full(variable.shape, value))


def values(model):
    return {float(x) for v in variables_of(model) for x in np.ravel(v)}


def train(progress, *losses):
    """Three updates, and a validation, for each loss; weights of its value."""
    for loss in losses:
        fill(progress.model, loss)
        for batch in range(3):
            progress.on_train_batch_end(batch, {"loss": loss})
        epoch = len(progress.records)
        progress.on_epoch_end(epoch, {"loss": loss, "val_loss": loss})


def damage(checkpoint, name="model.safetensors"):
    path = checkpoint / name
    path.write_bytes(flipped(path.read_bytes()))


# === What is kept ===


def test_only_leftovers_of_runs_are_deleted(run):
    run.saved(100, 200)
    # Killed while saving, and while deleting.
    own = [
        ".best.safetensors-ab12cd34",
        "epochs/.step-00000001.safetensors-x1",
        "cache/.train-ab12cd34/ids.npy",
        "checkpoints/.stop-00000250-abcd_234/file",
        "checkpoints/.step-00000050-gone/file",
    ]
    others = [".gitignore", ".notes-ab12cd34"]
    foreign = [".DS_Store", ".nfs0000000012", "step-notes", ".snapshot"]
    foreign += ["step-00000300 (copy)"]
    others += [f"checkpoints/{name}/file" for name in foreign]
    for name in [*own, *others]:
        (run.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (run.directory / name).write_bytes(b"half")
    run.resumed(is_chief=False)
    assert all((run.directory / name).is_file() for name in [*own, *others])
    progress = run.resumed(keep_checkpoints=1)
    assert not any((run.directory / name).exists() for name in own)
    assert all((run.directory / name).is_file() for name in others)
    assert progress.step == 200
    progress.step = 300
    progress._save("step")
    assert run.names() == sorted([*foreign, "step-00000300"])


def test_weights_of_old_passes_are_deleted(run):
    progress = run.start(
        per_pass=1, keep_checkpoints=2, average_epochs=2, validate_every=10
    )
    for step in range(1, 30):
        progress.on_train_batch_end(step, {"loss": 1.0})
        if step % 10 == 0:
            progress.on_epoch_end(0, {"loss": 1.0, "val_loss": 1.0})
    assert run.names("epochs") == [
        f"step-{step:08}.safetensors" for step in (9, 10, 19, 20, 28, 29)
    ]


def test_only_the_chief_writes(run):
    before = run.names(".")
    progress = run.start(is_chief=False, per_pass=1, average_epochs=2)
    train(progress, 3.0)
    assert progress.step == 3
    assert run.names(".") == before


@pytest.mark.parametrize(
    ("training", "step", "seconds", "names"),
    [
        ({"save_every": 4}, 8, 0.0, ["step-00000008"]),
        ({"save_every": 4}, 7, 1e9, []),
        ({"save_minutes": 0.5}, 7, 29.0, []),
        ({"save_every": 4, "save_minutes": 0.5}, 7, 30.0, ["stop-00000007"]),
    ],
    ids=str,
)
def test_checkpoint_is_saved_by_steps_or_time(
    run, training, step, seconds, names, monkeypatch
):
    progress = run.start(**training)
    progress.step = step - 1
    now = time.perf_counter()
    progress._last_save = now - seconds
    monkeypatch.setattr("time.perf_counter", lambda: now)
    progress.on_train_batch_end(0, {"loss": 1.0})
    assert (run.names() if run.folder.exists() else []) == names


def test_average_does_not_depend_on_the_clock(run, monkeypatch):
    found = []
    for seconds in (0.0, 100.0):
        progress = run.start(save_every=2, save_minutes=1.0, keep_checkpoints=2)
        progress.steps_per_round = 100
        now = time.perf_counter()
        for batch in range(7):
            now += seconds
            monkeypatch.setattr("time.perf_counter", lambda now=now: now)
            progress.on_train_batch_end(batch, {"loss": 1.0})
        found.append([path.name for path in progress.checkpoints.regular()])
    assert found == [["step-00000004", "step-00000006"]] * 2
    # One more, to resume from.
    assert run.names()[-1] == "stop-00000007" and len(run.names()) == 3


@pytest.mark.parametrize(("step", "kind"), [(4, "step"), (5, "stop")])
def test_stop_leaves_the_checkpoints_of_a_run_that_goes_on(run, step, kind):
    progress = run.start(save_every=2, validate_every=100)
    progress.step = step - 1
    progress.signals = types.SimpleNamespace(received=15, leave=lambda: None)
    progress.on_train_batch_end(0, {"loss": 1.0})
    assert run.names() == [f"{kind}-{step:08}"]


def test_last_checkpoint_is_kept_when_the_disk_is_full(run, monkeypatch):
    def fail(arrays, path):
        raise OSError(28, "No space left on device")

    progress = run.start()
    train(progress, 3.0)
    with monkeypatch.context() as patch:
        patch.setattr("relative_attention.runs.checkpoint.save_arrays", fail)
        with pytest.raises(OSError, match="No space left"):
            train(progress, 2.0)
    assert run.names() == ["step-00000003"]
    assert run.resumed().step == 3


@pytest.mark.parametrize(
    "training",
    [{"save_every": 1}, {"average_epochs": 1}, {}],
    ids=["checkpoint", "pass", "best"],
)
def test_run_ends_when_its_folder_is_removed(run, training):
    progress = run.start(per_pass=1, **training)
    shutil.rmtree(run.directory)
    with pytest.raises(ra.InputError, match="was removed or moved") as error:
        train(progress, 1.0)
    assert "\n" not in str(error.value)
    assert not run.directory.exists()


# === Resuming ===


def test_damaged_checkpoint_is_set_aside(run):
    run.saved(100, 200)
    for _ in range(2):
        run.saved(300)
        run.saved(310, kind="stop")
        damage(run.folder / "step-00000300")
        damage(run.folder / "stop-00000310", "training.safetensors")
        assert run.resumed().step == 200
        assert run.names() == [
            "damaged-step-00000300",
            "damaged-stop-00000310",
            "step-00000100",
            "step-00000200",
        ]
        text = "\n".join(run.lines)
        assert "step-00000300 is damaged: model.safetensors" in text
        assert "Resuming from step-00000200" in text
        assert "the one before: 100 updates are made again" in text
        assert "damaged-stop-00000310" in text
    # What the run writes then is not taken for older than the damaged one.
    progress = run.resumed(keep_checkpoints=1)
    progress.step = 250
    progress._save("step")
    assert run.names()[-1] == "step-00000250"
    assert run.resumed().step == 250


def flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


FILES = ("model.safetensors", "training.safetensors", "state.json")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, flipped) for name in FILES),
        *((name, None) for name in FILES),
        ("state.json", lambda _: b"{}"),
        ("state.json", lambda _: b"\xff"),
        ("state.json", lambda _: b"[" * 100_000),
        ("state.json", lambda text: text.replace(b"200", b"201", 1)),
    ],
)
def test_nothing_of_a_damaged_checkpoint_is_used(name, change, run):
    run.saved(200)
    path = run.folder / "step-00000200" / name
    content = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(content))
    fill(run.model, 7)
    # Nothing is deleted while there is no other.
    with pytest.raises(ra.InputError, match="No checkpoint of.*--overwrite"):
        run.resumed()
    assert values(run.model) == {7.0}
    assert run.names() == ["step-00000200"]
    run.saved(100)
    fill(run.model, 7)
    assert run.resumed().step == 100
    assert values(run.model) == {100.0}


def test_checkpoint_of_another_model_is_refused(run):
    run.saved(100)
    run.model = make_model(width=3)
    fill(run.model, 7)
    with pytest.raises(ra.InputError, match="other than this one"):
        run.resumed()
    assert values(run.model) == {7.0}


def test_checksums_of_other_files_are_ignored(run):
    run.saved(100)
    # Reading a pipe would never end.
    os.mkfifo(run.directory / "pipe")
    path = run.folder / "step-00000100" / "state.json"
    content = json.loads(path.read_text())
    content["checksums"]["../../pipe"] = 0
    path.write_text(json.dumps(content))
    assert run.resumed().step == 100


# === When a run ends before its last update ===

PATIENT = {"early_stopping": 2}


@pytest.mark.parametrize(
    ("training", "losses", "seconds", "is_over"),
    [
        ({}, range(9), 1e9, False),
        (PATIENT, (2.0, 3.0), 0.0, False),
        (PATIENT, (2.0, 3.0, 1.0), 0.0, False),
        # As good is no better.
        (PATIENT, (2.0, 2.0, 2.0), 0.0, True),
        # The first counts as the best of losses that are not finite.
        (PATIENT, (math.nan, math.inf, math.nan), 0.0, True),
        ({"minutes": 1.5}, (1.0,), 89.0, False),
        ({"minutes": 1.5}, (1.0,), 90.0, True),
    ],
    ids=str,
)
def test_run_ends_by_early_stopping_or_time(
    run, training, losses, seconds, is_over
):
    progress = run.start(**training)
    progress.records = [
        {"val_loss": loss, "seconds": seconds} for loss in losses
    ]
    assert progress.is_over() is is_over


def test_fit_stops_when_a_validation_ends_the_run(run):
    progress = run.start(early_stopping=1)
    progress.model.stop_training = False
    train(progress, 1.0)
    assert not progress.model.stop_training
    train(progress, 2.0)
    assert progress.model.stop_training
    train(run.start(minutes=1e-9), 1.0)
    assert run.lines == [
        "training ends after update 6: 1 validation without a better one "
        "(`training.early_stopping` 1)",
        "training ends after update 3: the time is up "
        "(`training.minutes` 1e-09)",
    ]


def are_over(run, sections, scores, seconds=0.0):
    """What each machine decides, once all have been asked."""
    flags, machines = [], []
    for number, (training, bleu) in enumerate(zip(sections, scores)):
        machine = run.start(best_by="bleu", **training)
        machine.cluster = Machine(number == 0, flags)
        machine.records = [{"val_bleu": x, "seconds": seconds} for x in bleu]
        machines.append(machine)
    for machine in machines:
        machine.is_over()
    # Each asks once, whatever it finds, as the others wait for it.
    assert len(flags) == len(machines)
    for machine in machines:
        machine.cluster.answer = any(flags)
    return [machine.is_over() for machine in machines]


@pytest.mark.parametrize("number", [3, 4])
def test_machines_end_together(number, run):
    # Their translations differ by one word at the third validation.
    scores = [(20.0, 19.0, 21.0, 20.0)[:number], (20, 19, 18, 17)[:number]]
    for in_order in (scores, scores[::-1]):
        first_alone = are_over(run, [PATIENT], in_order[:1])
        assert are_over(run, [PATIENT] * 2, in_order) == first_alone * 2
    # And by time.
    sections = [{"minutes": 60}, {"minutes": 1}]
    assert are_over(run, sections, [(20.0,)] * 2, 70.0) == [True, True]


@pytest.mark.parametrize(
    ("best_by", "before", "value", "is_best"),
    [
        ("loss", (), 5.0, True),
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
def test_best_weights_are_saved_when_better(
    best_by, before, value, is_best, run
):
    name = f"val_{best_by}"
    progress = run.start(best_by=best_by)
    progress.records = [{name: x, "seconds": 0.0} for x in before]
    progress.on_epoch_end(0, {name: value})
    assert (run.directory / "best.safetensors").exists() is is_best
