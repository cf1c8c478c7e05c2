"""Recipes that come with the package."""

import difflib
import pathlib

import relative_attention
from relative_attention.errors import InputError
from relative_attention.experiments.recipe import Recipe
from relative_attention.experiments.results import load_results

_PACKAGE = pathlib.Path(relative_attention.__file__).parent


def zoo_directory():
    """The folder of the zoo: in a wheel inside the package, else beside it."""
    packaged = _PACKAGE / "zoo"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "models"


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
    close = difflib.get_close_matches(name, zoo_recipes(), n=1)
    nearest = f" Did you mean {close[0]!r}?" if close else ""
    raise InputError(
        f"Unknown recipe {name!r}: neither a file nor one of the zoo."
        f"{nearest} Known: {', '.join(zoo_recipes())}."
    )


def zoo_results(name):
    """What the zoo's `results.json` of a recipe holds, `{}` without one."""
    directory = zoo_directory() / name
    if not (directory / "results.json").is_file():
        return {}
    return load_results(directory)
