"""`relative-attention average`, as a user types it."""

import functools
import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays


@pytest.fixture
def run(run):
    """The command that every test here runs."""
    return functools.partial(run, "average")


@pytest.fixture
def copy(trained, tmp_path):
    """A finished run that may be changed, with three checkpoints."""
    return shutil.copytree(trained, tmp_path / "run")


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def assert_is_mean(path, directory, steps):
    parts = [
        load_arrays(
            directory / "checkpoints" / f"step-{step:08}" / "model.safetensors"
        )
        for step in steps
    ]
    arrays = load_arrays(path)
    assert arrays.keys() == parts[0].keys()
    for name, array in arrays.items():
        mean = np.mean([part[name] for part in parts], axis=0, dtype="float64")
        np.testing.assert_allclose(array, mean, rtol=1e-6, atol=1e-9)


def test_last_checkpoints_become_a_model(run, trained, tmp_path):
    output = tmp_path / "mean"
    before = names(trained)
    status, out, err = run(trained, "--last", 2, "--output", output)
    assert (status, out) == (0, f"model: {output}\n"), err
    assert_is_mean(output / "model.safetensors", trained, [8, 12])
    assert (output / "average.txt").read_text().splitlines() == [
        str(trained / "checkpoints" / f"step-{step:08}") for step in (8, 12)
    ]
    assert ra.load_translator(output).max_extra_length == 5
    assert names(trained) == before


def test_without_output_the_model_stands_beside_the_run(run, copy):
    status, out, err = run(copy)
    output = copy.with_name("run_average_3")
    assert (status, out) == (0, f"model: {output}\n"), err
    assert_is_mean(output / "model.safetensors", copy, [4, 8, 12])


def test_weights_alone_go_to_a_file(run, trained, tmp_path):
    output = tmp_path / "mean.safetensors"
    status, out, err = run(trained, "--last=2", "--output", output)
    assert (status, out) == (0, f"weights: {output}\n"), err
    assert_is_mean(output, trained, [8, 12])


def test_run_itself_changes_only_when_told(run, copy):
    best = (copy / "best.safetensors").read_bytes()
    assert run(copy, "--last=3", "--in-place")[0] == 0
    assert_is_mean(copy / "model.safetensors", copy, [4, 8, 12])
    assert (copy / "best.safetensors").read_bytes() == best
    ra.load_translator(copy)


def test_files_are_averaged(run, trained, tmp_path):
    checkpoints = trained / "checkpoints"
    output = tmp_path / "c.safetensors"
    status, out, err = run(
        checkpoints / "step-00000004" / "model.safetensors",
        checkpoints / "step-00000012",
        "--output",
        output,
    )
    assert (status, out) == (0, f"weights: {output}\n"), err
    assert_is_mean(output, trained, [4, 12])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--last=4"], "at most 3, the number of checkpoints that"),
        (["--last=0"], "`--last` must be at least 1"),
        (["--output", "{run}"], "is there already"),
        (["--output", "{run}/x.safetensors/y.safetensors"], "is no folder"),
        (["{run}", "--last=2", "--output=x"], "for the checkpoints of one run"),
        (["{run}", "--in-place"], "for the checkpoints of one run"),
        (["{run}", "--output=x"], "must be a `.safetensors` file"),
        (["{run}"], "must be a `.safetensors` file"),
        (
            ["{run}/best.safetensors", "--output", "{run}/best.safetensors"],
            "is one of the files to average",
        ),
        (
            ["absent.safetensors", "--output=x.safetensors"],
            "No weights at absent.safetensors",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_done_changes_nothing(
    run, copy, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (copy / "x.safetensors").write_bytes(b"")
    before = names(tmp_path)
    status, out, err = run(copy, *[a.format(run=copy) for a in arguments])
    assert (status, out) == (1, "")
    assert message in err
    assert names(tmp_path) == before


def test_damaged_checkpoint_is_named(run, copy, tmp_path):
    path = copy / "checkpoints" / "step-00000008" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    before = names(tmp_path)
    status, _, err = run(copy, "--last=2")
    assert status == 1
    assert str(path) in err and "cut short" in err
    assert names(tmp_path) == before
    assert run(copy, "--last=1")[0] == 0


@pytest.mark.parametrize("what", ["absent", "empty", "untrained"])
def test_folder_that_is_no_run_is_refused(run, copy, tmp_path, what):
    (tmp_path / "empty").mkdir()
    shutil.copytree(copy, tmp_path / "untrained")
    shutil.rmtree(tmp_path / "untrained" / "checkpoints")
    message = {
        "absent": "No run at",
        "empty": "is no model directory",
        "untrained": "has no checkpoints",
    }[what]
    before = names(tmp_path)
    status, _, err = run(tmp_path / what)
    assert status == 1 and message in err
    assert names(tmp_path) == before
