"""Chooses the values that a recipe leaves to the size of its corpus.

A recipe leaves a key to it by the value `auto`. How good the choices are is
measured by `benchmarks/training/small_corpora.py`.
"""

import pathlib
from typing import cast

from relative_attention.data.lines import count_lines
from relative_attention.runs.prepare import RunInputs
from relative_attention.runs.recipe import AUTO
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.report import Report

# Below so many pairs: pieces of the vocabulary, and dropout.
_BY_PAIRS = (
    (10_000, 2000, 0.3),
    (50_000, 4000, 0.3),
    (float("inf"), 8000, 0.1),
)

# With the 100 to 400 pairs of an update of 4,096 tokens, the warm-up takes a
# third of all updates at most.
_PAIRS_PER_WARMUP_STEP = 1200
_LEAST_WARMUP, _MOST_WARMUP = 50, 2000


def follow_corpus(
    recipe: Recipe,
    inputs: RunInputs,
    run: pathlib.Path | None,
    report: Report,
) -> Recipe:
    """Returns the recipe with a number in place of each `auto`.

    Args:
        recipe: A `Recipe`.
        inputs: What the run reads, a `RunInputs`.
        run: The path of the run that is resumed, whose numbers are kept, or
            `None`.
        report: A function that is called with a line that says what was
            chosen.
    """
    sections = recipe.to_mapping()
    chosen = {
        "vocabulary.size": sections["vocabulary"]["size"],
        "model.dropout": sections["model"].get("dropout"),
        "training.warmup_steps": sections["training"]["warmup_steps"],
    }
    if inputs.vocabularies is not None:
        # Nothing is left to choose.
        del chosen["vocabulary.size"]
    names = [name for name, value in chosen.items() if value == AUTO]
    if not names:
        return recipe
    if run is not None:
        before = Recipe.load(run / "recipe.yaml").to_mapping()
        for name in names:
            section, _, key = name.partition(".")
            chosen[name] = before[section].get(key)
    else:
        num_pairs = count_lines(cast(str, inputs.files.source))
        chosen = _choose(recipe, num_pairs)
    values = [f"{name}={chosen[name]}" for name in names]
    if run is None:
        report(f"for {num_pairs:,} pairs: {' '.join(values)}")
    return recipe.override(values)


def _choose(recipe: Recipe, num_pairs: int) -> dict[str, int | float]:
    pieces, dropout = next(
        choice for limit, *choice in _BY_PAIRS if num_pairs < limit
    )
    limits = [_MOST_WARMUP]
    if recipe.training.epochs is not None:
        pairs = num_pairs * recipe.training.epochs
        limits.append(pairs // _PAIRS_PER_WARMUP_STEP)
    if recipe.training.steps is not None:
        limits.append(recipe.training.steps // 3)
    return {
        "vocabulary.size": int(pieces),
        "model.dropout": dropout,
        "training.warmup_steps": max(min(limits), _LEAST_WARMUP),
    }
