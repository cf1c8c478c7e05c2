"""Checks what the values of a recipe may be together.

What each may be alone stands beside it, in `recipe_sections.py`.
"""

from typing import TYPE_CHECKING

from relative_attention.errors import InputError
from relative_attention.settings import check_section

if TYPE_CHECKING:
    from relative_attention.runs.recipe import Recipe
    from relative_attention.runs.recipe_sections import TrainingSection


def check_values(recipe: "Recipe") -> None:
    """Raises `InputError` unless the values of a recipe can be trained with.

    Args:
        recipe: A `Recipe`. The types of its values have been checked; see
            `field_value`.
    """
    _check_name(recipe.name)
    for section in ("data", "vocabulary", "training", "decoding"):
        check_section(getattr(recipe, section), section)
    _check_vocabulary(recipe)
    if recipe.data.tokenized and recipe.data.target_language is not None:
        raise InputError(
            "`data.target_language` is for BLEU by Moses' tokeniser, which "
            "texts that are tokenised already (`data.tokenized`) cannot take. "
            f"Received: {recipe.data.target_language!r}. Add "
            "data.target_language=null."
        )
    training = recipe.training
    if training.steps is None and training.epochs is None:
        raise InputError(
            "`training.steps` or `training.epochs` must say how long to "
            "train. Received: neither."
        )
    if training.average_last > training.keep_checkpoints:
        raise InputError(
            "`training.average_last` must not exceed "
            "`training.keep_checkpoints`: older checkpoints are deleted. "
            f"Received: {training.average_last} and "
            f"{training.keep_checkpoints}."
        )
    _check_averages(training)
    if training.best_by == "bleu" and training.bleu_every != 1:
        raise InputError(
            "`training.best_by: bleu` needs BLEU at every validation, "
            "`training.bleu_every: 1`. Received: "
            f"{training.bleu_every}."
        )


def _check_name(name: str) -> None:
    """Checks the name, which is that of the folder in `runs`."""
    if not name.strip(". ") or any(c in name for c in "/\\\0"):
        raise InputError(
            "`name` must be the name of a folder, without slashes. "
            f"Received: {name!r}."
        )


def _check_averages(training: "TrainingSection") -> None:
    """Checks that weights are averaged in one way, if at all."""
    chosen = {
        f"`training.{name}`": value
        for name, value in (
            ("average_last", training.average_last or None),
            ("average_epochs", training.average_epochs or None),
            ("ema_momentum", training.ema_momentum),
        )
        if value is not None
    }
    if len(chosen) > 1:
        raise InputError(
            f"{' and '.join(chosen)} are {len(chosen)} ways to average "
            "weights: choose one. Received: "
            f"{' and '.join(map(str, chosen.values()))}."
        )


def _check_vocabulary(recipe: "Recipe") -> None:
    section = recipe.vocabulary
    sides = [section.source_model, section.target_model]
    if section.joint and sides != [None, None]:
        raise InputError(
            "`vocabulary.source_model` and `vocabulary.target_model` are for "
            "`vocabulary.joint: false`; a joint one is `vocabulary.model`."
        )
    if not section.joint and (
        section.model is not None or sides.count(None) == 1
    ):
        raise InputError(
            "With `vocabulary.joint: false` give both "
            "`vocabulary.source_model` and `vocabulary.target_model`, or "
            "neither, and no `vocabulary.model`."
        )
    is_given = section.model is not None or None not in sides
    if is_given and recipe.training.start_from and section.from_start:
        raise InputError(
            "A vocabulary of one's own and `training.start_from` need "
            "`vocabulary.from_start: false`: else that model's vocabulary is "
            "taken."
        )
