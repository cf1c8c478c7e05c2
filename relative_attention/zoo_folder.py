"""The folders of the zoo: what comes with the package, by name.

Read without Keras, so that listing them is quick.
"""

import json
import pathlib

import yaml

_PACKAGE = pathlib.Path(__file__).parent


def zoo_directory():
    """The folder of the zoo: in a wheel inside the package, else beside it."""
    packaged = _PACKAGE / "zoo"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "models"


def zoo_recipes():
    """Names of the recipes of the zoo, a sorted list of strings."""
    return sorted(
        path.parent.name for path in zoo_directory().glob("*/recipe.yaml")
    )


def zoo_models():
    """Names of what the zoo has weights of, a sorted list of strings."""
    return [name for name in zoo_recipes() if is_model(zoo_directory() / name)]


def is_model(directory):
    """Whether a folder has the weights of a trained model."""
    return (pathlib.Path(directory) / "model.safetensors").is_file()


def zoo_description(name):
    """What the recipe of a name is for, a sentence."""
    text = (zoo_directory() / name / "recipe.yaml").read_text("utf-8")
    return yaml.safe_load(text)["description"]


def zoo_results(name):
    """What the zoo's `results.json` of a recipe holds, `{}` without one."""
    path = zoo_directory() / name / "results.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
