"""Values that a recipe leaves to the size of its corpus."""

import dataclasses

import pytest

import relative_attention as ra
from relative_attention.runs.corpus_defaults import with_values_for_corpus
from relative_attention.runs.prepare import RunInputs

AUTO = (
    "vocabulary.size=auto",
    "model.dropout=auto",
    "training.warmup_steps=auto",
)


def values_of(recipe):
    return (
        recipe.vocabulary.size,
        recipe.model["dropout"],
        recipe.training.warmup_steps,
    )


@pytest.mark.parametrize(
    ("num_pairs", "length", "expected"),
    [
        (2_000, "epochs=30", (2000, 0.3, 400)),
        (20_000, "epochs=30", (4000, 0.3, 500)),
        (20_000, "steps=1800", (4000, 0.3, 600)),
        (160_000, "epochs=30", (4000, 0.1, 2000)),
        (160_000, "epochs=3", (4000, 0.1, 400)),
        (500_000, "epochs=3", (8000, 0.1, 1250)),
    ],
)
def test_default_recipe_follows_the_corpus(
    num_pairs, length, expected, tmp_path
):
    path = tmp_path / "train.en"
    path.write_text("a line\n" * num_pairs)
    recipe = ra.find_recipe("small_relative").override(
        ["training.epochs=null", "training.steps=null", f"training.{length}"]
        if length.startswith("epochs")
        else [f"training.{length}", "training.epochs=null"]
    )
    files = dataclasses.replace(recipe.data, source=str(path))
    lines = []
    chosen = with_values_for_corpus(
        recipe, RunInputs(files, None, None, {}), None, lines.append
    )
    assert values_of(chosen) == expected
    (line,) = lines
    assert line.startswith(f"for {num_pairs:,} pairs: vocabulary.size=")
    # A user's own values go before.
    own = recipe.override(["model.dropout=0.2", "vocabulary.size=300"])
    chosen = with_values_for_corpus(
        own, RunInputs(files, None, None, {}), None, lines.append
    )
    assert values_of(chosen) == (300, 0.2, expected[2])
    assert lines[-1] == (
        f"for {num_pairs:,} pairs: training.warmup_steps={expected[2]}"
    )


@pytest.mark.large
def test_chosen_values_are_kept_when_a_run_is_resumed(quickly, tmp_path):
    output, lines = tmp_path / "run", []
    # The corpus is too small for the pieces of a default vocabulary.
    auto = ("vocabulary.size=400", *AUTO[1:])
    quickly(output, *auto, "training.steps=3", report=lines.append)
    assert "for 300 pairs: model.dropout=0.3 training.warmup_steps=400" in lines
    before = values_of(ra.Recipe.load(output / "recipe.yaml"))
    assert before == (400, 0.3, 400)
    quickly(
        output,
        *auto,
        "training.steps=600000",
        "training.minutes=1e-6",
        resume=True,
    )
    assert values_of(ra.Recipe.load(output / "recipe.yaml")) == before
