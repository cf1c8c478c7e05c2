"""The cards of the zoo say what the models are."""

import json
import pathlib
import re

import pytest

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.models import preset_config
from relative_attention.recipes import find_recipe
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_recipes
from relative_attention.zoo import zoo_results

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
    per_head = "" if shared else ", per head"
    return f"K = {config.max_relative_position}{per_head}"


@pytest.mark.parametrize(
    "name", small_first(zoo_recipes(), lambda name: "wmt14" not in name)
)
def test_card_counts_the_parameters_of_its_recipe(name):
    recipe = find_recipe(name)
    size = recipe.vocabulary.size
    # The largest size that the corpus may choose.
    config = recipe.model_config(8000 if size == "auto" else size)
    model = ra.Transformer(config)
    card = (MODELS / name / "README.md").read_text("utf-8")
    assert f"{model.count_params():,}" in card


@pytest.mark.parametrize("name", zoo_models())
def test_card_has_the_scores_of_the_weights(name):
    results = zoo_results(name)
    validation, test = results["scores_of_weights"].values()
    assert validation.keys() == test.keys() == results["scores"]["test"].keys()
    for key, score in test.items():
        if isinstance(score, float):
            # Rounding to float16 changes few translations.
            assert score == pytest.approx(
                results["scores"]["test"][key], abs=0.1
            )
    cased = f"**{test['bleu']:.2f}**"
    lowercased = f"{test['bleu_moses_lowercased']:.2f}"
    card = (MODELS / name / "README.md").read_text("utf-8")
    for label, score, key in (
        ("cased, detokenized", cased, "bleu"),
        ("lowercased, Moses' tokenizer", lowercased, "bleu_moses_lowercased"),
    ):
        signature = test[f"{key}_signature"].replace("|", "\\|")
        assert f"| {label} | {score} | `{signature}` |" in card
    assert f"{validation['bleu']:.2f}" in card


@pytest.mark.parametrize(
    "path", MODELS.glob("*/earlier_results.json"), ids=lambda p: p.parent.name
)
def test_card_has_the_scores_of_earlier_stages(path):
    card = (path.parent / "README.md").read_text("utf-8")
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
    printed = {name: rows[name][1] for name in zoo_models()}
    assert printed == {
        name: f"{zoo_results(name)['scores_of_weights']['test']['bleu']:.2f}"
        for name in zoo_models()
    }
