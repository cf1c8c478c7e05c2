"""Runs that are to predict two views of each sentence alike."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.models.weights import load_arrays
from tests.small_run import RECIPE

WEIGHTS = "checkpoints/step-00000004/model.safetensors"


@pytest.mark.parametrize("kind", ["r_drop", "simcut"])
def test_resumed_run_equals_uninterrupted_run(
    kind, quickly, quick_run, tmp_path
):
    overrides = (f"training.consistency={kind}", "training.cut_probability=0.3")
    quickly(tmp_path / "whole", *overrides)
    quickly(tmp_path / "run", *overrides, "training.steps=3")
    quickly(tmp_path / "run", *overrides, resume=True)
    whole = load_arrays(tmp_path / "whole" / WEIGHTS)
    other = load_arrays(quick_run / WEIGHTS)
    for name, array in load_arrays(tmp_path / "run" / WEIGHTS).items():
        np.testing.assert_array_equal(array, whole[name], err_msg=name)
    assert any((whole[name] != other[name]).any() for name in whole)


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
