"""Runs that are to predict two views of each sentence alike."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.models.weights import load_arrays
from tests.small_run import RECIPE

WEIGHTS = "checkpoints/step-00000004/model.safetensors"


def assert_same_weights(folder, other):
    expected = load_arrays(other / WEIGHTS)
    for name, array in load_arrays(folder / WEIGHTS).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize("kind", ["r_drop", "simcut"])
def test_resumed_run_equals_uninterrupted_run(
    kind, quickly, quick_run, tmp_path
):
    overrides = (f"training.consistency={kind}", "training.cut_probability=0.3")
    quickly(tmp_path / "whole", *overrides)
    quickly(tmp_path / "run", *overrides, "training.steps=3")
    quickly(tmp_path / "run", *overrides, resume=True)
    assert_same_weights(tmp_path / "run", tmp_path / "whole")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "run", quick_run)


def test_second_view_can_come_later(quickly, quick_run, tmp_path):
    overrides = ("training.consistency=r_drop", "training.consistency_from=1")
    quickly(tmp_path / "whole", *overrides)
    # Rounded up: as without until the validation after two updates.
    first = "checkpoints/step-00000002/model.safetensors"
    for name, array in load_arrays(tmp_path / "whole" / first).items():
        expected = load_arrays(quick_run / first)[name]
        np.testing.assert_array_equal(array, expected, err_msg=name)
    for steps in (1, 3):
        output = tmp_path / f"run{steps}"
        quickly(output, *overrides, f"training.steps={steps}")
        quickly(output, *overrides, resume=True)
        assert_same_weights(output, tmp_path / "whole")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "whole", quick_run)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.consistency=rdrop", "must be one of r_drop, simcut"),
        ("training.consistency_weight=5", "is for `training.consistency`"),
        ("training.cut_probability=0", "must be positive"),
        ("training.cut_probability=1", r"must be in \[0, 1\)"),
    ],
)
def test_recipe_says_what_may_be(override, message):
    recipe = ra.Recipe.from_mapping(RECIPE)
    with pytest.raises(InputError, match=message):
        recipe.override([override])
