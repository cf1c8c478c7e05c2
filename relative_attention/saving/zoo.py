"""Trained models that come with the package, found by name.

Wherever a folder or file is asked for, a name of the zoo is taken too. One
rule holds everywhere: what is there at that path, and is what is asked for (a
recipe, a trained model, a run's curve), goes before the zoo; and a folder that
is not goes before an error.
"""

import pathlib

from relative_attention.did_you_mean import did_you_mean
from relative_attention.errors import InputError
from relative_attention.zoo_folder import is_model
from relative_attention.zoo_folder import zoo_directory
from relative_attention.zoo_folder import zoo_models
from relative_attention.zoo_folder import zoo_recipes


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
    if path.is_dir() and (is_model(path) or name not in zoo_models()):
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
        f"No model directory at {path}.{did_you_mean(name, zoo_models())} "
        f"The zoo has: {', '.join(zoo_models()) or 'none'}."
    )


def find_file_or_model(name, missing="No such file:"):
    """A file, or the folder of a trained model.

    Args:
        name: string or path. A file goes before a folder as `find_model`
            finds it.
        missing: string. How the error begins. Defaults to `"No such file:"`.

    Returns:
        `pathlib.Path`.

    Raises:
        InputError: if there is neither.
    """
    path = pathlib.Path(name)
    if path.is_file():
        return path
    try:
        return find_model(name)
    except InputError as error:
        raise InputError(f"{missing} {path}. {error}") from error


def find_curve(name):
    """The folder of a run, or one of the zoo, that may have a curve to draw.

    Args:
        name: string or path. A folder with one of the files goes before a name
            of `zoo_recipes()`.

    Returns:
        `pathlib.Path`.
    """
    path, name = pathlib.Path(name), str(name)
    has_curve = any((path / file).is_file() for file in CURVE_FILES)
    if name in zoo_recipes() and not has_curve:
        return zoo_directory() / name
    return path


# What a run's curve is drawn from; the first of them that there is.
CURVE_FILES = ("training.csv", "history.json", "results.json")
