"""Recipes, and trained models, that come with the package."""

import difflib
import pathlib

from relative_attention.errors import InputError
from relative_attention.experiments.recipe import Recipe
from relative_attention.experiments.results import load_results
from relative_attention.models.zoo_weights import zoo_directory
from relative_attention.models.zoo_weights import zoo_models


def zoo_recipes():
    """Names of the recipes of the zoo, a sorted list of strings."""
    return sorted(
        path.parent.name for path in zoo_directory().glob("*/recipe.yaml")
    )


def find_recipe(name):
    """A recipe by the name of the zoo, or by a path.

    Args:
        name: string. A name of `zoo_recipes()`, the path of a YAML file, or of
            a folder with a `recipe.yaml`, such as a trained model.

    Returns:
        `Recipe`.

    Raises:
        InputError: if there is none, or it is wrong.
    """
    path = pathlib.Path(name)
    if name in zoo_recipes():
        return Recipe.load(zoo_directory() / name / "recipe.yaml")
    if path.is_dir() and (path / "recipe.yaml").is_file():
        return Recipe.load(path / "recipe.yaml")
    if path.is_file():
        return Recipe.load(path)
    raise InputError(
        f"Unknown recipe {name!r}: neither a file nor one of the zoo."
        f"{_nearest(name, zoo_recipes())} Known: {', '.join(zoo_recipes())}."
    )


def find_model(name):
    """The folder of a trained model, by its path or the name of the zoo.

    Args:
        name: string or path. A folder of one's own goes before a name of
            `zoo_models()`.

    Returns:
        `pathlib.Path`.

    Raises:
        InputError: if there is no such folder, or the zoo has a recipe of
            this name and no weights.
    """
    path = pathlib.Path(name)
    name = str(name)
    if path.is_dir() and (_is_model(path) or name not in zoo_models()):
        return path
    if name in zoo_models():
        return zoo_directory() / name
    if name in zoo_recipes():
        raise InputError(
            f"The zoo has a recipe {name!r}, but no trained model: train it "
            f"with `relative-attention train {name}`, then give the folder "
            "that this fills."
        )
    raise InputError(
        f"No model directory at {path}.{_nearest(name, zoo_models())} The zoo "
        f"has: {', '.join(zoo_models()) or 'none'}."
    )


def _is_model(directory):
    return (directory / "model.safetensors").is_file()


def _nearest(name, names):
    close = difflib.get_close_matches(str(name), names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def zoo_results(name):
    """What the zoo's `results.json` of a recipe holds, `{}` without one."""
    directory = zoo_directory() / name
    if not (directory / "results.json").is_file():
        return {}
    return load_results(directory)
