"""The cards of bundled models say what the models are."""

import json
import math
import pathlib

import pytest

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.models.weight_shapes import weight_shapes
from relative_attention.recipes import find_recipe
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_recipes
from relative_attention.zoo import zoo_results

MODELS = pathlib.Path(__file__).parents[2] / "models"


@pytest.mark.parametrize("name", zoo_recipes())
def test_card_counts_the_parameters_of_its_recipe(name):
    recipe = find_recipe(name)
    size = recipe.vocabulary.size
    # The largest size that the corpus may choose.
    config = recipe.model_config(8000 if size == "auto" else size)
    number = sum(math.prod(shape) for _, shape in weight_shapes(config))
    card = (MODELS / name / "README.md").read_text("utf-8")
    assert f"{number:,}" in card


@pytest.mark.parametrize("name", zoo_models())
def test_weights_rounded_to_float16_score_as_those_of_the_run(name):
    results = zoo_results(name)
    rounded, run = results["scores_of_weights"], results["scores"]
    assert rounded["validation"].keys() == run["validation"].keys()
    for key, score in rounded["test"].items():
        if isinstance(score, float):
            # Rounding changes few translations.
            assert score == pytest.approx(run["test"][key], abs=0.1)


@pytest.mark.parametrize(
    "path", MODELS.glob("*/earlier_results.json"), ids=lambda p: p.parent.name
)
def test_training_has_the_scores_of_earlier_stages(path):
    card = (path.parent / "TRAINING.md").read_text("utf-8")
    content = json.loads(path.read_text("utf-8"))
    for run in content["runs"].values():
        for part in ("validation", "test"):
            assert f"| {run[content['shown']][part]['bleu']:.2f} |" in card
    for comparison in content["comparisons"]:
        assert f"p {comparison['p_value']:.3f}" in " ".join(card.split())


def test_list_has_the_scores_of_the_weights(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert {*ra.presets(), *zoo_recipes()} <= rows.keys()
    for name in zoo_models():
        bleu = zoo_results(name)["scores_of_weights"]["test"]["bleu"]
        assert f"{bleu:.2f}" in rows[name]
