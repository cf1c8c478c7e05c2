"""Initial weights of a run that was killed, before or after it had them."""

import pytest

import relative_attention as ra
from relative_attention.runs.initial_weights import find_initial_weights


@pytest.fixture
def recipe(recipe, tmp_path):
    return recipe.override([f"training.start_from={tmp_path / 'absent'}"])


@pytest.mark.parametrize(
    "name", [".DS_Store", ".step-00000004-abcd1234", "notes"]
)
def test_run_without_a_checkpoint_still_starts_from_weights(
    name, recipe, tmp_path
):
    (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
    with pytest.raises(ra.InputError, match="No model to start from"):
        find_initial_weights(recipe, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    "name", ["step-00000004", "stop-00000003", ".step-00000004-abcd1234-old"]
)
def test_run_with_a_checkpoint_has_started(name, recipe, tmp_path):
    (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
    assert find_initial_weights(recipe, tmp_path / "run", resume=True) is None
