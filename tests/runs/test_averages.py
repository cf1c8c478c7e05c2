"""Runs whose model is a mean: of passes, or of moving weights."""

import json
import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from tests.runs.conftest import train_quickly
from tests.small_run import RECIPE

MODEL = "model.safetensors"
# Few updates a pass, so that a short run ends several.
PASSES = (
    "training.batch_tokens=4096",
    "training.steps=STEPS",
    "training.validate_every=2",
    "training.average_epochs=2",
)


@pytest.fixture(scope="module")
def all_kept(corpus, tmp_path_factory):
    """Folder and updates of a run of four passes that keeps each update."""
    output = tmp_path_factory.mktemp("all") / "run"
    results = train_quickly(
        ra.Recipe.from_mapping(RECIPE),
        output,
        corpus,
        "training.batch_tokens=4096",
        "training.steps=null",
        "training.epochs=4",
        "training.save_every=1",
        "training.keep_checkpoints=99",
    )
    return output, results["steps"]


@pytest.fixture(scope="module")
def steps_per_pass(all_kept):
    return all_kept[1] // 4


@pytest.fixture
def passes(quickly, steps_per_pass):
    """`passes(output, steps, ...)` trains so many updates more than 3 passes.

    No validation, and so no checkpoint, comes at the end of a pass but by
    chance.
    """

    def train(output, more, *overrides, **arguments):
        steps = 3 * steps_per_pass + more
        settings = [part.replace("STEPS", str(steps)) for part in PASSES]
        quickly(output, *settings, *overrides, **arguments)
        return steps

    return train


def epochs_of(output):
    return sorted(path.name for path in (output / "epochs").iterdir())


@pytest.fixture(scope="module")
def expected(all_kept, steps_per_pass):
    """Mean of what the passes 2 and 3 ended with."""
    output, _ = all_kept
    ends = [
        load_arrays(
            output / f"checkpoints/step-{number * steps_per_pass:08}" / MODEL
        )
        for number in (2, 3)
    ]
    assert any((ends[0][name] != ends[1][name]).any() for name in ends[0])
    return {
        name: ((ends[0][name].astype("float64") + ends[1][name]) / 2).astype(
            "float32"
        )
        for name in ends[0]
    }


def assert_equal(output, expected):
    arrays = load_arrays(output / MODEL)
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_finished_model_is_the_mean_of_the_ends_of_passes(
    passes, expected, tmp_path
):
    output = tmp_path / "run"
    passes(output, 1, "training.keep_checkpoints=1")
    assert_equal(output, expected)
    # What is validated on the way is kept as ever.
    assert (output / "best.safetensors").exists()


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(-2, marks=pytest.mark.large),
        pytest.param(-1, marks=pytest.mark.large),
        0,
    ],
    ids=str,
)
def test_run_that_goes_on_has_the_same_mean(
    stop, passes, expected, steps_per_pass, tmp_path
):
    output = tmp_path / "run"
    overrides = ("training.save_every=3", "training.keep_checkpoints=2")
    passes(output, stop, *overrides)
    passes(output, 1, *overrides, resume=True)
    assert_equal(output, expected)


@pytest.mark.large
def test_run_that_ends_before_what_a_crash_undid_leaves_that_out(
    passes, expected, steps_per_pass, tmp_path
):
    output = tmp_path / "run"
    # Two passes and more beyond; the checkpoints of these are lost.
    passes(output, 2 * steps_per_pass + 1, "training.keep_checkpoints=99")
    for path in (output / "checkpoints").iterdir():
        if int(path.name.split("-")[1]) > 3 * steps_per_pass:
            shutil.rmtree(path)
    passes(output, 1, "training.keep_checkpoints=99", resume=True)
    assert_equal(output, expected)
    assert len(epochs_of(output)) > 2


def test_run_of_no_whole_pass_keeps_the_best_and_says_so(quickly, tmp_path):
    lines = []
    output = tmp_path / "run"
    quickly(
        output,
        "training.average_epochs=2",
        "training.steps=1",
        report=lines.append,
    )
    assert (output / MODEL).read_bytes() == (
        output / "best.safetensors"
    ).read_bytes()
    (line,) = [line for line in lines if "average_epochs" in line]
    assert line.startswith("only 0 of the 2") and "best" in line


@pytest.mark.parametrize(
    "other", ["training.average_last=3", "training.ema_momentum=0.9"]
)
def test_two_ways_to_average_are_refused(other, recipe):
    with pytest.raises(ra.InputError, match="are 2 ways to average"):
        recipe.override(["training.average_epochs=2", other])


MOMENTUM = "training.ema_momentum=0.5"
LAST = "checkpoints/step-00000004"


def test_moving_average_is_what_is_kept_and_not_what_is_trained(
    quickly, quick_run, tmp_path
):
    output = tmp_path / "run"
    # Stopped on the way: neither the weights nor their average see it.
    quickly(output, MOMENTUM, "training.steps=3")
    quickly(output, MOMENTUM, resume=True)
    raw = load_arrays(output / LAST / "model.safetensors")
    expected = load_arrays(quick_run / LAST / "model.safetensors")
    for name, array in expected.items():
        np.testing.assert_array_equal(raw[name], array)
    history = json.loads((output / "history.json").read_text())
    best = min(history, key=lambda epoch: epoch["val_loss"])["step"]
    checkpoint = output / "checkpoints" / f"step-{best:08}"
    averages = {
        array.tobytes()
        for array in load_arrays(checkpoint / "training.safetensors").values()
    }
    raw = load_arrays(checkpoint / "model.safetensors")
    kept = load_arrays(output / "model.safetensors")
    for name, array in kept.items():
        assert array.tobytes() in averages, name
    assert any((kept[name] != raw[name]).any() for name in kept)


# Four updates are a pass: the run ends after two of them.
ALL = (
    "data.join=3",
    "training.average_epochs=2",
    "training.steps=null",
    "training.epochs=2",
    "training.batch_tokens=2048",
    "training.effective_batch_tokens=4096",
    "training.validate_every=3",
)


@pytest.mark.large
def test_resumed_run_equals_uninterrupted_run(quickly, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    quickly(whole, *ALL)
    # In the first pass, and in the second.
    for steps in (1, 6):
        quickly(
            resumed,
            *ALL,
            f"training.steps={steps}",
            resume="auto",
        )
    quickly(resumed, *ALL, resume=True)
    ends = [f"epochs/step-{step:08}.safetensors" for step in (4, 8)]
    last = [
        f"checkpoints/step-00000008/{name}.safetensors"
        for name in ("model", "training")
    ]
    for name in ("model.safetensors", *ends, *last):
        expected = load_arrays(whole / name)
        for key, array in load_arrays(resumed / name).items():
            np.testing.assert_array_equal(array, expected[key], err_msg=key)
    first, second = (load_arrays(whole / name) for name in ends)
    for key, array in load_arrays(whole / "model.safetensors").items():
        mean = (first[key].astype("float64") + second[key]) / 2
        np.testing.assert_array_equal(array, mean.astype("float32"))
