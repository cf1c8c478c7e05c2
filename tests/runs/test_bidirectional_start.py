"""Runs whose first updates learn both directions."""

import json

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.training_length import training_length
from tests.runs.conftest import train_quickly
from tests.small_run import RECIPE

START = ("training.bidirectional_steps=2", "training.validate_every=3")


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """Folder and log of a run of four updates; not to be changed."""
    output = tmp_path_factory.mktemp("whole") / "run"
    lines = []
    train_quickly(
        ra.Recipe.from_mapping(RECIPE),
        output,
        corpus,
        *START,
        "training.save_every=1",
        report=lines.append,
    )
    return output, lines


def arrays_of(output, step, name="model"):
    return load_arrays(
        output / "checkpoints" / f"step-{step:08}" / f"{name}.safetensors"
    )


def is_equal(first, second):
    assert first.keys() == second.keys()
    return all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("steps", [1, 2, 3], ids=["before", "at", "after"])
def test_run_that_goes_on_around_the_switch_is_the_same(
    steps, whole, quickly, tmp_path
):
    output = tmp_path / "run"
    quickly(output, *START, f"training.steps={steps}")
    quickly(output, *START, resume=True)
    for name in ("model", "training"):
        assert is_equal(
            arrays_of(output, 4, name), arrays_of(whole[0], 4, name)
        )


def test_one_direction_follows_both(whole, quick_run):
    output, lines = whole
    # The same initial weights, and from the first update on others.
    assert not is_equal(arrays_of(output, 2), arrays_of(quick_run, 2))
    assert any("first 2 updates learn both directions" in s for s in lines)
    history = json.loads((output / "history.json").read_text())
    assert [record["step"] for record in history] == [3, 4]


@pytest.mark.parametrize(
    ("steps", "epochs", "expected", "words"),
    [
        (None, 2, 27, ""),
        (30, 2, 27, "after 27 updates, not the 30"),
        (12, None, 12, ""),
        (7, None, 7, "all 7 updates of `training.steps` learn both"),
    ],
)
def test_passes_are_counted_from_the_switch_on(steps, epochs, expected, words):
    section = TrainingSection(steps=steps, epochs=epochs, bidirectional_steps=7)
    lines = []
    assert training_length(section, 10, lines.append) == expected
    assert bool(lines) == bool(words)
    assert words in "".join(lines)


def test_averages_are_of_passes_in_the_one_direction(quickly, tmp_path):
    output = tmp_path / "run"
    quickly(
        output,
        *START,
        "training.steps=null",
        "training.epochs=1",
        "training.batch_tokens=8192",
        "training.average_epochs=3",
    )
    (path,) = (output / "epochs").iterdir()
    history = json.loads((output / "history.json").read_text())
    assert path.stem == f"step-{history[-1]['step']:08}"


def test_two_vocabularies_are_refused(recipe):
    with pytest.raises(ra.InputError, match="needs `vocabulary.joint: true`"):
        recipe.override(
            ["training.bidirectional_steps=2", "vocabulary.joint=false"]
        )
