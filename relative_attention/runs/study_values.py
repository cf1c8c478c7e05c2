"""Tells which values of a recipe decide what a run gives."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig
from relative_attention.runs.recipe import FOLLOWS_FROM_DATA
from relative_attention.runs.recipe import SECTIONS
from relative_attention.runs.recipe import Recipe
from relative_attention.settings import unknown

# Where texts are, what is shown on the way, what is computed how, and what is
# looked at beside the recipe: the precision is that which was chosen, and a
# run that ended early has fewer updates.
_DECIDE_NOTHING = (
    "data.corpus",
    "data.origin",
    "data.target_language",
    "model.implementation",
    "training.devices",
    "training.minutes",
    "training.bleu_every",
    "training.pictures",
    "training.keep_checkpoints",
    "training.precision",
)


def deciding_values(recipe: Recipe) -> dict[str, Any]:
    """Returns the values that decide the result, those that are not default.

    A key that there was not when a run was made had what is the default now.
    The preset of a model is read out: what counts are its numbers.

    Args:
        recipe: A `Recipe`.

    Returns:
        A dict of `section.key` to what JSON gives back.
    """
    values = _all_values(recipe)
    # An update has as many tokens, in whatever parts.
    parts = values.pop("training.batch_tokens")
    if values["training.effective_batch_tokens"] is None:
        values["training.effective_batch_tokens"] = parts
    defaults = _defaults()
    values = {
        name: value
        for name, value in values.items()
        if name not in _DECIDE_NOTHING and value != defaults[name]
    }
    return json.loads(json.dumps(values))


def value_of(recipe: Recipe, name: str) -> Any:
    """Returns a value of a recipe, or of the model that it describes.

    Args:
        recipe: A `Recipe`.
        name: A string, `section.key`.

    Raises:
        InputError: if there is no such key.
    """
    values = _all_values(recipe)
    if name not in values:
        raise InputError(unknown("key", name, list(values)))
    return values[name]


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """Returns the first key in which two runs differ, and both values.

    Args:
        before: A dict, what `deciding_values` returned.
        now: Another.

    Returns:
        A triple of the key and the two values, or `None`.
    """
    defaults = _defaults()
    # A record may be from when a key was thought to decide something.
    for name in sorted({*before, *now}.difference(_DECIDE_NOTHING)):
        default = defaults.get(name)
        pair = before.get(name, default), now.get(name, default)
        if pair[0] != pair[1]:
            return name, *pair
    return None


def as_text(value: Any) -> str:
    """Returns a value as the command line takes it after `section.key=`.

    Args:
        value: What YAML or JSON gave back.
    """
    return value if isinstance(value, str) else json.dumps(value)


def _all_values(recipe: Recipe) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = {
        name: dataclasses.asdict(getattr(recipe, name)) for name in SECTIONS
    }
    config = recipe.model_config(recipe.vocabulary.size)
    sections["model"] = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if name not in FOLLOWS_FROM_DATA
    }
    return {
        f"{section}.{name}": value
        for section, values in sections.items()
        for name, value in values.items()
    }


def _defaults() -> dict[str, Any]:
    return {
        f"{section}.{field.name}": field.default
        for section, cls in {**SECTIONS, "model": TransformerConfig}.items()
        for field in dataclasses.fields(cls)
    }
