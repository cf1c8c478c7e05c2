"""A bundled name stands wherever a folder does, after the folder."""

import shutil

import pytest

import relative_attention as ra
from relative_attention.runs.report import load_curve
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.zoo import find_file_or_model
from relative_attention.zoo import zoo_directory

NAME = "multi30k_en_de_tiny_relative"


def test_own_recipe_takes_precedence_over_the_zoo(elsewhere):
    folder = elsewhere / "small_relative"
    folder.mkdir()
    expected = ra.find_recipe(str(zoo_directory() / "small_relative"))
    # A folder that is no recipe is not what is asked for.
    assert ra.find_recipe("small_relative") == expected
    expected.override(["training.epochs=7"]).save(folder / "recipe.yaml")
    assert ra.find_recipe("small_relative").training.epochs == 7


def test_own_curve_takes_precedence_over_the_zoo(elsewhere):
    zoo = load_curve(NAME)
    (elsewhere / NAME).mkdir()
    assert load_curve(NAME) == zoo
    (elsewhere / NAME / "history.json").write_text('[{"step": 1}]')
    assert load_curve(NAME) == [{"step": 1}]


def test_training_starts_from_a_name(elsewhere):
    recipe = ra.find_recipe(NAME).override([f"training.start_from={NAME}"])
    initial = find_initial_weights(recipe, elsewhere / "run")
    assert initial.directory == zoo_directory() / NAME
    wrong = recipe.override(["training.start_from=small_relative"])
    with pytest.raises(ra.InputError, match="start_from.*no trained model"):
        find_initial_weights(wrong, elsewhere / "run")


def test_file_takes_precedence_over_a_model(elsewhere):
    assert find_file_or_model(NAME) == zoo_directory() / NAME
    (elsewhere / NAME).write_text("eine Zeile\n")
    assert find_file_or_model(NAME).is_file()


def test_model_is_compared_by_name(run, elsewhere, eagerly):
    (elsewhere / "source").write_text("Two dogs run.\n")
    (elsewhere / "reference").write_text("Zwei Hunde laufen.\n")
    shutil.copytree(zoo_directory() / NAME, elsewhere / "mine")
    options = "--source=source --reference=reference --metrics=bleu".split()
    # What is compared is of no account here: as little as can be.
    options += ["--max-length=2", f"--compare={NAME}", "--resamples=40"]
    status, out, err = run("evaluate", "mine", *options)
    assert status == 0, err
    assert f"{NAME} " in out


def test_weights_are_averaged_by_name(run, elsewhere):
    status, out, err = run("average", NAME, NAME, "--output=mean.safetensors")
    assert status == 0, err
    assert (elsewhere / "mean.safetensors").exists()
    status, out, err = run("average", NAME)
    assert status == 1
    assert "has no checkpoints" in err
