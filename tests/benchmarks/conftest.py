"""What the smoke tests of the benchmarks share."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

import relative_attention as ra
from benchmarks.harness.engine import ROOT
from benchmarks.harness.results import Result
from tests.small_models import make_model
from tests.small_models import train_vocabulary


@pytest.fixture
def run_benchmark(tmp_path, capsys):
    """`run_benchmark("decoding.output_length", ...)`: its result and output.

    With `is_apart=True` in a process of its own, with these variables: the
    memory of this one would count as that of the engines it starts.
    """

    def run(name, *arguments, is_apart=False, **variables):
        output = tmp_path / "results" / "result.json"
        words = [*map(str, arguments), "--output", str(output)]
        if is_apart:
            command = [sys.executable, "-m", f"benchmarks.{name}", *words]
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        else:
            importlib.import_module(f"benchmarks.{name}").main(words)
            printed = capsys.readouterr().out
        result = Result.read(output)
        assert result.command.startswith(f"python -m benchmarks.{name} ")
        assert result.origin["commit"] and result.origin["hardware"]
        return result, printed

    return run


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Folder with train.en and train.de, of 60 short pairs."""
    folder = tmp_path_factory.mktemp("texts")
    words = ["a man", "two dogs", "one bird", "the car", "my hat"]
    verbs = ["runs", "sees it", "is here", "eats"]
    ends = ["now", "again", "today"]
    lines = [f"{w} {v} {e}" for w in words for v in verbs for e in ends]
    for name in ("train.en", "train.de"):
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Folder of a tiny model that has not been trained."""
    model = make_model(
        np.random.default_rng(1), hidden_dim=4, intermediate_dim=4
    )
    translator = ra.Translator(model, train_vocabulary(281), max_extra_length=2)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    ra.save_translator(translator, folder)
    return folder


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "test.en"
    path.write_text("a man runs now\ntwo dogs\n")
    return path
