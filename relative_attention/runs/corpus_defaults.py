"""Chooses the values of recipe keys that are `auto`, by the size of the corpus.

`benchmarks/training/small_corpora.py` measures the quality of the choices.
"""

import pathlib
from typing import cast

from relative_attention.data.lines import count_lines
from relative_attention.recipes.recipe import AUTO
from relative_attention.recipes.recipe import Recipe
from relative_attention.recipes.recipe import values_by_key
from relative_attention.runs.prepare import RunInputs
from relative_attention.runs.report import Report

# The keys of a recipe whose `auto` is replaced here.
CHOSEN_KEYS = ("vocabulary.size", "model.dropout", "training.warmup_steps")

# For fewer pairs than the first number: vocabulary size and dropout.
_BY_PAIRS = (
    (10_000, 2000, 0.3),
    (50_000, 4000, 0.3),
    (500_000, 4000, 0.1),
    (float("inf"), 8000, 0.1),
)

# An update of 4,096 tokens has 100 to 400 pairs, so this is at most a third of
# all updates.
_PAIRS_PER_WARMUP_STEP = 1200
# A shorter warm-up ends at a higher learning rate. With fewer than 400 updates
# models were worse, even those that were trained for 240.
_LEAST_WARMUP, _MOST_WARMUP = 400, 2000


def with_values_for_corpus(
    recipe: Recipe,
    inputs: RunInputs,
    run: pathlib.Path | None,
    report: Report,
) -> Recipe:
    """Returns the recipe with each `auto` replaced by a number.

    Args:
        recipe: A `Recipe`.
        inputs: The `RunInputs`.
        run: The path of the run to resume, whose numbers are kept, or `None`.
        report: A function to call with a line about the choice.
    """
    values = values_by_key(recipe)
    keys = [key for key in CHOSEN_KEYS if values.get(key) == AUTO]
    if inputs.vocabularies is not None and "vocabulary.size" in keys:
        # Nothing is left to choose.
        keys.remove("vocabulary.size")
    if not keys:
        return recipe
    if run is not None:
        # The text may have grown: other numbers would be another run.
        values = values_by_key(Recipe.load(run / "recipe.yaml"))
    else:
        # Lines, as pairs can only be counted with a vocabulary.
        num_pairs = count_lines(cast(str, inputs.files.source))
        values = choose_values(recipe, num_pairs)
        chosen = " ".join(f"{key}={values[key]}" for key in keys)
        report(f"for {num_pairs:,} pairs: {chosen}")
    return recipe.replace({key: values.get(key) for key in keys})


def choose_values(recipe: Recipe, num_pairs: int) -> dict[str, int | float]:
    """Returns the values of `CHOSEN_KEYS` for a number of training pairs."""
    pieces, dropout = next(
        choice for limit, *choice in _BY_PAIRS if num_pairs < limit
    )
    limits = [_MOST_WARMUP]
    if recipe.training.epochs is not None:
        pairs = num_pairs * recipe.training.epochs
        limits.append(pairs // _PAIRS_PER_WARMUP_STEP)
    if recipe.training.steps is not None:
        # As for epochs: at most a third of all updates.
        limits.append(recipe.training.steps // 3)
    return {
        "vocabulary.size": int(pieces),
        "model.dropout": dropout,
        "training.warmup_steps": max(min(limits), _LEAST_WARMUP),
    }
