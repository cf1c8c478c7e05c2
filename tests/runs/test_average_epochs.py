"""Runs whose model is the mean of what the last passes ended with."""

import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.runs.run_files import clear_run
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


def test_overwriting_deletes_what_passes_left(quick_run, tmp_path):
    output = shutil.copytree(quick_run, tmp_path / "run")
    (output / "epochs").mkdir()
    (output / "epochs" / "step-00000002.safetensors").write_bytes(b"1")
    clear_run(output)
    assert not (output / "epochs").exists()


@pytest.mark.parametrize(
    "other", ["training.average_last=3", "training.ema_momentum=0.9"]
)
def test_two_ways_to_average_are_refused(other, recipe):
    with pytest.raises(ra.InputError, match="are 2 ways to average"):
        recipe.override(["training.average_epochs=2", other])
