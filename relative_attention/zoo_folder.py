"""Finds the folders of the zoo, which come with the package, by name.

They are read without Keras, so that listing them is quick.
"""

import json
import os
import pathlib
from typing import Any

import yaml

_PACKAGE = pathlib.Path(__file__).parent


def zoo_directory() -> pathlib.Path:
    """Returns the zoo's folder: inside the package in a wheel, else beside."""
    packaged = _PACKAGE / "zoo"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "models"


def zoo_recipes() -> list[str]:
    """Returns the sorted names of the zoo's recipes."""
    return sorted(
        path.parent.name for path in zoo_directory().glob("*/recipe.yaml")
    )


def zoo_models() -> list[str]:
    """Returns the sorted names of the models that the zoo has weights of."""
    return [name for name in zoo_recipes() if is_model(zoo_directory() / name)]


def is_model(directory: str | os.PathLike[str]) -> bool:
    """Returns whether a folder has the weights of a trained model."""
    return (pathlib.Path(directory) / "model.safetensors").is_file()


def zoo_description(name: str) -> str:
    """Returns a sentence on what the recipe of a name is for."""
    text = (zoo_directory() / name / "recipe.yaml").read_text("utf-8")
    return yaml.safe_load(text)["description"]


def zoo_results(name: str) -> dict[str, Any]:
    """Returns the `results.json` of a recipe of the zoo, or `{}`."""
    path = zoo_directory() / name / "results.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def studies_directory() -> pathlib.Path:
    """Returns the folder of the studies, which is no model of the zoo."""
    return zoo_directory() / "studies"


def zoo_studies() -> list[str]:
    """Returns the sorted names of the studies that come with the package."""
    return sorted(path.stem for path in studies_directory().glob("*.yaml"))


def study_description(name: str) -> str:
    """Returns what a study is for, in a sentence or more."""
    text = (studies_directory() / f"{name}.yaml").read_text("utf-8")
    return yaml.safe_load(text)["description"]


def is_installed() -> bool:
    """Returns whether the zoo is that of a wheel, which nobody writes to."""
    return zoo_directory().parent == _PACKAGE
