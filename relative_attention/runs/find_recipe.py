"""Recipes by path, or by the name of one that comes with the package."""

import pathlib

from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.runs.recipe import Recipe
from relative_attention.zoo import zoo_directory
from relative_attention.zoo import zoo_recipes


def find_recipe(name: pathlib.Path | str) -> Recipe:
    """Returns a recipe by its path, or by its name in the zoo.

    Args:
        name: A string, the path of a YAML file, or of a folder with a
            `recipe.yaml`, such as a trained model; or a name of
            `zoo_recipes()`, before which these go.

    Raises:
        InputError: if there is no such recipe, or it is wrong.
    """
    path, name = pathlib.Path(name), str(name)
    if path.is_dir() and (path / "recipe.yaml").is_file():
        return Recipe.load(path / "recipe.yaml")
    if path.is_file():
        return Recipe.load(path)
    if name in zoo_recipes():
        return Recipe.load(zoo_directory() / name / "recipe.yaml")
    known = zoo_recipes()
    raise InputError(
        f"Unknown recipe {name!r}: neither a file nor one of the zoo."
        f"{did_you_mean(name, known)} Known: {', '.join(known)}."
    )
