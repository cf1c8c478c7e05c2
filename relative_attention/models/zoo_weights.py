"""Models that come with the package with their weights, by name."""

import json

from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.zoo_folder import zoo_directory


def zoo_config(name):
    """The `TransformerConfig` of one of `zoo_models()`."""
    path = zoo_directory() / name / "config.json"
    return TransformerConfig(**json.loads(path.read_text("utf-8"))["model"])


def zoo_weights(name):
    """The path of the weights of one of `zoo_models()`."""
    return zoo_directory() / name / "model.safetensors"
