"""The cards of the zoo say what the models are."""

import pathlib
import re

import pytest

import relative_attention as ra
from relative_attention.models import preset_config
from relative_attention.runs import find_recipe
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_recipes

MODELS = pathlib.Path(__file__).parents[2] / "models"
VOCABULARY_SIZE = 32768
ROWS = {
    name: rest
    for name, *rest in re.findall(
        r"^\| `(\w+)` \| (.+) \| (\d+) \| (\d+) \| (\d+) \| (.+) \| (.+) \|$",
        (MODELS / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
}


def test_every_preset_has_a_row():
    assert sorted(ROWS) == sorted(ra.presets())


def small_first(names, is_small):
    """Names as parameters; models whose arrays take seconds are `large`."""
    return [
        pytest.param(name, marks=() if is_small(name) else pytest.mark.large)
        for name in names
    ]


@pytest.mark.parametrize(
    "name", small_first(ROWS, lambda name: "tiny" in name or "small" in name)
)
def test_row_of_preset_is_right(name):
    positions, hidden, feed_forward, heads, dropout, parameters = ROWS[name]
    config = preset_config(name, vocabulary_size=VOCABULARY_SIZE)
    assert positions == describe_positions(config)
    assert int(hidden) == config.hidden_dim
    assert int(feed_forward) == config.intermediate_dim
    assert int(heads) == config.num_heads
    assert float(dropout) == config.dropout
    assert parameters == f"{ra.Transformer(config).count_params():,}"


def describe_positions(config):
    if config.position_encoding != "relative":
        return config.position_encoding
    shared = config.share_relations_across_heads
    per_head = "" if shared else " and head"
    return f"K = {config.max_relative_position}, a table per layer{per_head}"


@pytest.mark.parametrize(
    "name", small_first(zoo_recipes(), lambda name: "wmt14" not in name)
)
def test_card_counts_the_parameters_of_its_recipe(name):
    recipe = find_recipe(name)
    model = ra.Transformer(recipe.model_config(recipe.vocabulary.size))
    card = (MODELS / name / "README.md").read_text("utf-8")
    assert f"{model.count_params():,}" in card


@pytest.mark.parametrize("name", zoo_models())
@pytest.mark.parametrize("page", ["README.md", "docs/science/results.md"])
def test_results_are_those_of_the_cards(name, page):
    card = (MODELS / name / "README.md").read_text("utf-8")
    scores = re.findall(r"^\| (?:lower)?cased, .* \| \**([\d.]+)", card, re.M)
    assert len(scores) >= 2
    text = (MODELS.parent / page).read_text("utf-8")
    (row,) = [line for line in text.splitlines() if f"models/{name})" in line]
    assert f"| **{scores[0]}** | {scores[1]}" in row
