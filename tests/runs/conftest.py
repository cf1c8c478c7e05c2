"""Runs without what takes most of the time: graphs, scores and pictures."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.runs import run as training_run
from tests.small_run import RECIPE

# A validation after every two updates, of which a run makes four.
QUICK = (
    "training.steps=4",
    "training.validate_every=2",
    "training.bleu_every=0",
)
# Devices, and parts of an update, drop other elements than one device would.
NO_DROPOUT = (
    "model.dropout=0.0",
    "model.attention_dropout=0.0",
    "model.intermediate_dropout=0.0",
)

_MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"


def start_command(log, *words, program=("-c", _MAIN), **variables):
    """Starts the command in a process of its own, and logs what it says."""
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, *program, *map(str, words)],
            env={**os.environ, **variables},
            stdout=file,
            stderr=file,
        )


def wait_for(condition, processes, output, seconds=240, seconds_between=0.05):
    """Waits while the processes live, which log beside their output."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, logs(output)
        assert all(p.poll() is None for p in processes), logs(output)
        time.sleep(seconds_between)


def logs(output):
    return "\n".join(
        path.read_text()[-3000:] for path in output.parent.glob("*.log")
    )


def write_recipe(recipe, path):
    path.write_text(yaml.safe_dump(recipe.to_mapping()))
    return path


@contextlib.contextmanager
def quick_training():
    """Updates are made step by step, and nothing is scored at the end.

    A handful of steps would be over before their graph is made.
    """
    compile_model = training_run.compile_model

    def compile_eager(model, *arguments):
        compile_model(model, *arguments)
        model.run_eagerly = True

    def results_of(output, recipe, origin, history, translator, data):
        return {**origin, "steps": history[-1]["step"], "curve": history}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_run, "compile_model", compile_eager)
        patch.setattr(training_run, "write_results", results_of)
        patch.setattr(training_run, "draw_curves", lambda *_: None)
        yield


def train_quickly(recipe, output, corpus, *overrides, **arguments):
    """Trains as `ra.train` does, by `quick_training`."""
    recipe = recipe.override([*QUICK, *overrides])
    with quick_training():
        return ra.train(recipe, output, data_directory=corpus, **arguments)


@pytest.fixture
def quickly(recipe, corpus):
    """`quickly(output, "section.key=value", ...)` trains the small recipe."""

    def train(output, *overrides, **arguments):
        return train_quickly(recipe, output, corpus, *overrides, **arguments)

    return train


@pytest.fixture(scope="session")
def quick_run(corpus, made_once):
    """Folder of a finished quick run; not to be changed."""
    recipe = ra.Recipe.from_mapping(RECIPE)
    folder = made_once(
        "quick", lambda folder: train_quickly(recipe, folder / "run", corpus)
    )
    return folder / "run"


@pytest.fixture
def copy(quick_run, tmp_path):
    """A finished run that may be changed."""
    return shutil.copytree(quick_run, tmp_path / "copy")


def assert_same_arrays(path, other, atol=0):
    """Both files have the same arrays, by name."""
    arrays, expected = load_arrays(path), load_arrays(other)
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(
            array, expected[name], rtol=0, atol=atol, err_msg=name
        )


def snapshot(folder):
    """The contents of all files, by path."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
