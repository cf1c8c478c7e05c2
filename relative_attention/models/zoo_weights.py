"""Models that come with the package with their weights, by name."""

import json
import pathlib

from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.version import __file__ as _VERSION_FILE

_PACKAGE = pathlib.Path(_VERSION_FILE).parent


def zoo_directory():
    """The folder of the zoo: in a wheel inside the package, else beside it."""
    packaged = _PACKAGE / "zoo"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "models"


def zoo_models():
    """Names of what the zoo has weights of, a sorted list of strings."""
    return sorted(
        path.parent.name for path in zoo_directory().glob("*/model.safetensors")
    )


def zoo_config(name):
    """The `TransformerConfig` of one of `zoo_models()`."""
    path = zoo_directory() / name / "config.json"
    return TransformerConfig(**json.loads(path.read_text("utf-8"))["model"])


def zoo_weights(name):
    """The path of the weights of one of `zoo_models()`."""
    return zoo_directory() / name / "model.safetensors"
