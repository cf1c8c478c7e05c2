"""The adapters of a model, and what a file of them must hold."""

import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from relative_attention.errors import InputError


def path_of(layer: keras.layers.Layer) -> str:
    """Returns the path of a layer in its model, less the model's name."""
    return str(layer.path).split("/", 1)[-1]


def lora_variables(model: keras.Model) -> list[keras.Variable]:
    """Lists the variables that `enable_lora` added to layers of a model."""
    return [v for v in model.variables if v.name.startswith("lora_")]


def check_lora(
    layers: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    path: str | pathlib.Path,
) -> tuple[list[str], int]:
    """Tells what the adapters in a file adapt.

    Args:
        layers: dict of path to layer, those that can be adapted.
        arrays: dict of name to array, what the file holds.
        path: path of the file, for errors.

    Returns:
        Pair of the paths of the layers, and the rank.

    Raises:
        InputError: if the file does not fit the layers.
    """
    paths = sorted({name.rpartition("/")[0] for name in arrays})
    # All have the same; of a file that holds something else, any will do.
    rank = next(
        (
            len(a)
            for name, a in arrays.items()
            if name.endswith("_b") and a.ndim
        ),
        0,
    )
    expected: dict[str, tuple[int, ...]] = {}
    for name in paths:
        if name in layers:
            expected |= _shapes(layers[name], name, rank)
    received = {name: array.shape for name, array in arrays.items()}
    if not expected or received != expected:
        wrong = sorted(received.items() ^ expected.items())
        what = f"look at {wrong[0][0]}" if wrong else "it is empty"
        raise InputError(
            f"{path} holds no adapters of this model: {what}. Load what "
            "`save_lora_weights` wrote, into a model with the same config."
        )
    return paths, rank


def _shapes(layer: Any, path: str, rank: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a layer's adapters by their names in the file."""
    is_embedding = isinstance(layer, keras.layers.Embedding)
    adapted = "embeddings" if is_embedding else "kernel"
    shape = tuple(getattr(layer, adapted).shape)
    return {
        f"{path}/lora_{adapted}_a": (*shape[:-1], rank),
        f"{path}/lora_{adapted}_b": (rank, shape[-1]),
    }
