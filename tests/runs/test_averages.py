"""Runs whose model is a mean: of checkpoints, of passes, of moving weights."""

import json
import shutil

import numpy as np
import pytest

from relative_attention.models.weights import load_arrays
from relative_attention.runs.average import validation_losses
from tests.runs.conftest import assert_same_arrays

MODEL = "model.safetensors"


def assert_mean(path, *parts):
    """The mean is taken in float64."""
    first, second = map(load_arrays, parts)
    for name, array in load_arrays(path).items():
        mean = (first[name].astype("float64") + second[name]) / 2
        np.testing.assert_array_equal(array, mean.astype("float32"))
    assert any((first[name] != second[name]).any() for name in first)


def test_average_last_averages_checkpoints(quickly, copy):
    quickly(copy, "training.average_last=2", resume=True)
    checkpoints = copy / "checkpoints"
    parts = [checkpoints / f"step-0000000{step}" / MODEL for step in (2, 4)]
    assert_mean(copy / MODEL, *parts)
    # And the best by validation when no longer asked.
    quickly(copy, "training.average_last=0", resume=True)
    assert_same_arrays(copy / MODEL, copy / "best.safetensors")


@pytest.mark.large
def test_average_epochs_averages_ends_of_passes(quickly, tmp_path):
    output = tmp_path / "run"
    overrides = (
        # Few updates a pass, so that a short run ends several.
        "training.batch_tokens=4096",
        "training.average_epochs=2",
        "training.save_every=1",
        "training.keep_checkpoints=99",
    )
    length = ("training.steps=null", "training.epochs=3")
    steps = quickly(output, *overrides, *length)["steps"]
    checkpoints = output / "checkpoints"
    ends = [
        checkpoints / f"step-{step:08}" / MODEL
        for step in (2 * steps // 3, steps)
    ]
    assert_mean(output / MODEL, *ends)
    # A pass that has not ended does not count.
    quickly(output, *overrides, f"training.steps={steps + 1}", resume=True)
    assert_mean(output / MODEL, *ends)
    # What is validated on the way is kept as ever.
    assert (output / "best.safetensors").exists()


def test_best_weights_are_kept_without_a_whole_pass(quickly, tmp_path):
    lines = []
    output = tmp_path / "run"
    overrides = ("training.average_epochs=2", "training.steps=1")
    quickly(output, *overrides, report=lines.append)
    assert_same_arrays(output / MODEL, output / "best.safetensors")
    (line,) = [line for line in lines if "average_epochs" in line]
    assert line.startswith("only 0 of the 2") and "best" in line


def test_moving_average_is_saved_but_not_trained(quickly, quick_run, tmp_path):
    output = tmp_path / "run"
    momentum = "training.ema_momentum=0.5"
    quickly(output, momentum)
    last = f"checkpoints/step-00000004/{MODEL}"
    assert_same_arrays(output / last, quick_run / last)
    history = json.loads((output / "history.json").read_text())
    best = min(history, key=lambda epoch: epoch["val_loss"])["step"]
    checkpoint = output / "checkpoints" / f"step-{best:08}"
    averages = {
        array.tobytes()
        for array in load_arrays(checkpoint / "training.safetensors").values()
    }
    raw, kept = load_arrays(checkpoint / MODEL), load_arrays(output / MODEL)
    for name, array in kept.items():
        assert array.tobytes() in averages, name
    assert any((kept[name] != raw[name]).any() for name in kept)


def test_validation_losses_equal_those_of_the_run(quick_run):
    history = json.loads((quick_run / "history.json").read_text())
    paths = [
        quick_run / "checkpoints" / f"step-{record['step']:08}" / MODEL
        for record in history
    ]
    losses = validation_losses(quick_run, paths)
    assert losses == pytest.approx(
        [record["val_loss"] for record in history], rel=1e-5
    )


def test_losses_of_a_run_without_its_texts_are_unknown(copy):
    shutil.rmtree(copy / "cache")
    assert validation_losses(copy, [copy / MODEL]) is None
