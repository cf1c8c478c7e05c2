"""Finds trained models that come with the package, by name.

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


def find_model(name: pathlib.Path | str) -> pathlib.Path:
    """Returns the folder of a trained model, by path or name of the zoo.

    Args:
        name: A string or path. A folder of one's own goes before a name of
            `zoo_models()`.

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
    if path.is_file():
        raise InputError(
            f"No model directory at {path}: that is a file. A model is the "
            "folder that `relative-attention train` filled; give its name."
        )
    raise InputError(
        f"No model directory at {path}.{did_you_mean(name, zoo_models())} "
        f"The zoo has: {', '.join(zoo_models()) or 'none'}."
    )


def find_file_or_model(
    name: pathlib.Path | str, missing: str = "No such file:"
) -> pathlib.Path:
    """Returns the path of a file, or of the folder of a trained model.

    Args:
        name: A string or path. A file goes before a folder as `find_model`
            finds it.
        missing: A string, how the error begins. Defaults to
            `"No such file:"`.

    Raises:
        InputError: if there is neither file nor folder.
    """
    path = pathlib.Path(name)
    if path.is_file():
        return path
    try:
        return find_model(name)
    except InputError as error:
        raise InputError(f"{missing} {path}. {error}") from error


def find_curve(name: pathlib.Path | str) -> pathlib.Path:
    """Returns the folder of a run, or of the zoo, whose curve is drawn.

    Args:
        name: A string or path. A folder with one of `CURVE_FILES` goes before
            a name of `zoo_recipes()`.
    """
    path, name = pathlib.Path(name), str(name)
    has_curve = any((path / file).is_file() for file in CURVE_FILES)
    if name in zoo_recipes() and not has_curve:
        return zoo_directory() / name
    return path


# What a run's curve is drawn from; the first of them that there is.
CURVE_FILES = ("training.csv", "history.json", "results.json")
