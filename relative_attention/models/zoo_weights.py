"""Config and weights of the trained models that come with the package."""

import json
import pathlib

from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.zoo import zoo_directory


def zoo_config(name: str) -> TransformerConfig:
    """Returns the `TransformerConfig` of one of `zoo_models()`."""
    path = zoo_directory() / name / "config.json"
    return TransformerConfig(**json.loads(path.read_text("utf-8"))["model"])


def zoo_weights(name: str) -> pathlib.Path:
    """Returns the path of the weights of one of `zoo_models()`."""
    return zoo_directory() / name / "model.safetensors"
