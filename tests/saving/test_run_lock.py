"""Two processes and one run."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.saving import run_lock
from relative_attention.saving.model_config import save_config
from relative_attention.saving.run_lock import RUN_LOCK
from relative_attention.saving.run_lock import lock_run

# The module alone: its package would load TensorFlow first.
HOLDER = """
import runpy, sys
lock_run = runpy.run_path(sys.argv[2])["lock_run"]
with lock_run(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Let another process write a run; gives the process."""
    processes = []

    def hold(directory):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(directory), run_lock.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "locked\n"
        return process

    yield hold
    for process in processes:
        process.kill()
        process.communicate()


def content(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "arguments",
    [{"resume": True}, {"overwrite": True}, {}],
    ids=["resume", "overwrite", "neither"],
)
def test_second_process_changes_nothing(
    arguments, hold, recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    output.mkdir()
    recipe.save(output / "recipe.yaml")
    (output / "history.json").write_text("[]")
    process = hold(output)
    before = content(output)
    with pytest.raises(ra.InputError) as raised:
        ra.train(recipe, output, data_directory=corpus, **arguments)
    assert f"process {process.pid} on " in str(raised.value)
    assert str(output) in str(raised.value)
    assert "`--output`" in str(raised.value)
    assert content(output) == before


@pytest.fixture
def averaged(recipe, tmp_path):
    """A run, as far as averages read it."""
    folder = tmp_path / "run"
    for step, value in ((1, 2.0), (2, 4.0)):
        checkpoint = folder / "checkpoints" / f"step-{step:08}"
        checkpoint.mkdir(parents=True)
        array = np.full(3, value, "float32")
        save_arrays({"weight": array}, checkpoint / "model.safetensors")
    save_config(recipe.model_config(5), recipe.decoding, folder)
    tokens = ["<blank>", "</s>", "<s>", "a", "<unk>"]
    ra.TokenVocabulary(tokens).save(folder / "vocabulary.tokens")
    return folder


def test_run_that_is_written_is_not_averaged_in_place(hold, averaged, run):
    hold(averaged)
    before = content(averaged)
    status, _, err = run("average", averaged, "--in-place")
    assert status == 1 and "is writing the run" in err
    assert content(averaged) == before
    # Which leaves the run as it is.
    assert run("average", averaged)[0] == 0
    mean = averaged.with_name("run_average_2") / "model.safetensors"
    assert load_arrays(mean)["weight"].tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("number", [signal.SIGKILL, None], ids=["kill", "end"])
def test_lock_ends_with_the_process(number, hold, tmp_path):
    process = hold(tmp_path / "run")
    if number is None:
        process.communicate("")
    else:
        process.send_signal(number)
    process.wait()
    with lock_run(tmp_path / "run"):
        assert os.listdir(tmp_path / "run") == [RUN_LOCK]
        text = (tmp_path / "run" / RUN_LOCK).read_text()
        assert text.startswith(f"{os.getpid()} ")


def test_lock_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with lock_run(tmp_path / "new"):
            raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    (tmp_path / "old").mkdir()
    with lock_run(tmp_path / "old"):
        pass
    assert os.listdir(tmp_path / "old") == []


def test_one_at_a_time_when_a_lock_file_was_deleted(hold, tmp_path):
    hold(tmp_path)
    (tmp_path / RUN_LOCK).rename(tmp_path / "of a process that has ended")
    with lock_run(tmp_path):
        with pytest.raises(ra.InputError, match="Another process"):
            with lock_run(tmp_path):
                pass


def test_machine_that_does_not_write_takes_no_lock(tmp_path):
    with lock_run(tmp_path / "run", writes=False):
        assert os.listdir(tmp_path) == []


def test_disk_without_locks_is_written_with_a_warning(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("Function not implemented")

    monkeypatch.setattr("relative_attention.saving.run_lock.lock_file", refuse)
    lines = []
    with lock_run(tmp_path, report=lines.append):
        pass
    assert len(lines) == 1 and "cannot be locked" in lines[0]
    assert os.listdir(tmp_path) == []


def test_overwriting_keeps_the_lock(recipe, tmp_path):
    with lock_run(tmp_path):
        claim_run_directory(tmp_path, recipe)
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "history.json").write_text("[]")
        claim_run_directory(tmp_path, recipe, overwrite=True)
        assert not (tmp_path / "history.json").exists()
        with pytest.raises(ra.InputError, match="Another process"):
            with lock_run(tmp_path):
                pass
