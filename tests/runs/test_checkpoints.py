"""The checkpoints of a run: which are kept, and which one resumes it."""

import json
import os

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.runs.checkpoints import Checkpointer
from relative_attention.runs.checkpoints import RunState
from relative_attention.training import RunCheckpoints

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="training is TensorFlow's"
)


@pytest.fixture(scope="module")
def model():
    """The smallest that has weights, an optimizer and a random generator."""
    inputs = keras.Input((2,))
    model = keras.Model(
        inputs,
        keras.layers.Dropout(0.5, seed=1)(keras.layers.Dense(1)(inputs)),
    )
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


class Run:
    """A run, as far as its checkpoints know of it."""

    def __init__(self, directory, model, step=0, **arguments):
        self.lines = []
        self.checkpointer = Checkpointer(
            directory, report=self.lines.append, **arguments
        )
        self.model = model
        self.step = step

    def save(self, kind="step"):
        state = RunState(self.step, [], None, 0.0, {})
        self.checkpointer.save(self.model, state, kind)


def save(directory, model, *steps, kind="step", **arguments):
    for step in steps:
        # To tell one checkpoint from another.
        model.set_weights([np.full(w.shape, step) for w in model.weights])
        Run(directory, model, step, **arguments).save(kind)


def restored(directory, model, **arguments):
    run = Run(directory, model, **arguments)
    run.step = run.checkpointer.restore(model).step
    return run


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def damage(checkpoint, name="model.safetensors"):
    content = bytearray((checkpoint / name).read_bytes())
    content[-1] ^= 1
    (checkpoint / name).write_bytes(content)


def change_json(path, change):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content)))


# === After going back ===


def test_save_after_going_back_keeps_what_it_wrote(model, tmp_path, folder):
    save(tmp_path, model, 100, 200, 300)
    damage(folder / "step-00000300")
    run = restored(tmp_path, model, keep=1)
    assert run.step == 200
    run.step = 250
    run.save()
    assert names(folder) == ["damaged-step-00000300", "step-00000250"]
    assert restored(tmp_path, model).step == 250


def test_damaged_checkpoint_is_named_and_set_aside(model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    for _ in range(2):
        save(tmp_path, model, 300)
        save(tmp_path, model, 310, kind="stop")
        damage(folder / "step-00000300")
        damage(folder / "stop-00000310", "training.safetensors")
        run = restored(tmp_path, model)
        assert run.step == 200
        assert names(folder) == [
            "damaged-step-00000300",
            "damaged-stop-00000310",
            "step-00000100",
            "step-00000200",
        ]
        text = "\n".join(run.lines)
        assert "Going on from step-00000200" in text
        assert "the one before: 100 updates are made again" in text
        assert "damaged-step-00000300" in text
        assert "damaged-stop-00000310" in text


def test_nothing_is_renamed_when_none_is_good(model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    before = names(folder)
    for name in before:
        damage(folder / name)
    with pytest.raises(ra.InputError, match="No checkpoint of.*--overwrite"):
        restored(tmp_path, model)
    assert names(folder) == before


def test_machine_that_does_not_write_renames_nothing(model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    damage(folder / "step-00000200")
    (folder / ".step-00000300-abcd1234").mkdir()
    before = names(folder)
    assert restored(tmp_path, model, writes=False).step == 100
    assert names(folder) == before


def test_order_is_that_of_numbers(model, tmp_path, folder):
    for step in (99_999_999, 100_000_000):
        (folder / f"step-{step:08}").mkdir(parents=True)
    found = RunCheckpoints(tmp_path).steps()
    assert [path.name for path in found] == ["step-99999999", "step-100000000"]


# === What is not ours ===

FOREIGN = (".DS_Store", ".nfs0000000012", "step-notes", "step-00000001.txt")


def test_files_of_others_are_left_alone(model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    for name in FOREIGN:
        (folder / name).write_text("mine")
    (folder / ".snapshot").mkdir()
    (folder / "step-00000300 (copy)").mkdir()
    (folder / ".step-00000150-abcd1234").mkdir()
    run = restored(tmp_path, model, keep=1)
    assert run.step == 200
    run.step = 300
    run.save()
    assert names(folder) == sorted(
        [*FOREIGN, ".snapshot", "step-00000300 (copy)", "step-00000300"]
    )


def test_what_a_killed_process_left_is_deleted(model, tmp_path, folder):
    save(tmp_path, model, 100)
    for name in (
        ".step-00000200-abcd1234",
        ".stop-00000200-abcd_234",
        ".step-00000100-abcd1234-old",
        ".step-00000050-gone",
    ):
        (folder / name).mkdir()
        (folder / name / "file").touch()
    assert restored(tmp_path, model).step == 100
    assert names(folder) == ["step-00000100"]


def test_checkpoint_that_was_being_replaced_is_put_back(
    model, tmp_path, folder
):
    save(tmp_path, model, 100, 200)
    # Killed between the two renames.
    (folder / "step-00000200").rename(folder / ".step-00000200-abcd1234-old")
    assert restored(tmp_path, model).step == 200
    assert names(folder) == ["step-00000100", "step-00000200"]


def test_deletion_that_was_cut_short_leaves_no_half(
    model, tmp_path, folder, monkeypatch
):
    save(tmp_path, model, 100, 200)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        RunCheckpoints(tmp_path).prune(step=200, keep=1)
    steps = RunCheckpoints(tmp_path).steps()
    assert [path.name for path in steps] == ["step-00000200"]
    assert restored(tmp_path, model).step == 200
    assert names(folder) == ["step-00000200"]


# === A damaged state ===


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b"\x00" * 9],
    ids=["empty", "cut", "list", "keys", "not_text", "nested", "zeros"],
)
def test_state_that_cannot_be_read_is_damage(content, model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    (folder / "step-00000200" / "state.json").write_bytes(content)
    assert restored(tmp_path, model).step == 100


def test_state_that_was_changed_is_damage(model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    path = folder / "step-00000200" / "state.json"
    path.write_text(path.read_text().replace('"step": 200', '"step": 201'))
    assert restored(tmp_path, model).step == 100


def test_checksums_lead_to_no_other_file(model, tmp_path, folder):
    save(tmp_path, model, 100)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def add(content):
        content["checksums"]["../../pipe"] = 0
        return content

    change_json(folder / "step-00000100" / "state.json", add)
    # Reading the pipe would never end.
    assert restored(tmp_path, model).step == 100


# === Averages ===


@pytest.mark.parametrize("as_file", [False, True], ids=["folder", "file"])
def test_mean_takes_no_weights_that_were_changed(
    as_file, model, tmp_path, folder
):
    save(tmp_path, model, 100, 200)
    damage(folder / "step-00000200")
    paths = [folder / "step-00000100", folder / "step-00000200"]
    if as_file:
        paths = [path / "model.safetensors" for path in paths]
    with pytest.raises(ra.InputError, match="step-00000200 is damaged: model"):
        ra.average_checkpoints(paths, tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()


def test_mean_needs_the_weights_alone(model, tmp_path, folder):
    save(tmp_path, model, 100, 200)
    (folder / "step-00000200" / "training.safetensors").unlink()
    ra.average_checkpoints(
        RunCheckpoints(tmp_path).steps(), tmp_path / "mean.safetensors"
    )
    assert (tmp_path / "mean.safetensors").exists()
