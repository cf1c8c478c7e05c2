"""The weights of a model as a file of named arrays."""

import os
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save

from relative_attention.errors import InputError
from relative_attention.files import atomic_file

if TYPE_CHECKING:
    import keras


def save_weights(
    variables: "Sequence[keras.Variable]", path: str | pathlib.Path
) -> None:
    """Writes variables to a `.safetensors` file, whole or not at all.

    Args:
        variables: list of Keras variables. Each is stored under its `path`,
            less the name of the model, which differs from one to the next.
        path: path of the file.
    """
    save_arrays({weight_name(v): np.asarray(v) for v in variables}, path)


def save_arrays(
    arrays: Mapping[str, np.ndarray], path: str | pathlib.Path
) -> None:
    """Writes a dict of NumPy arrays, whole or not at all."""
    with atomic_file(path) as file:
        file.write(save(dict(arrays)))


def load_weights(
    variables: "Sequence[keras.Variable]", path: str | pathlib.Path
) -> None:
    """Reads variables from a file that `save_weights` wrote.

    Nothing is assigned unless everything fits.

    Args:
        variables: list of Keras variables.
        path: path of the file.

    Raises:
        InputError: if the file is missing, cut short or damaged, or if a
            variable is missing, left over, or of another shape.
    """
    arrays = load_arrays(path)
    by_key = {weight_name(variable): variable for variable in variables}
    missing = sorted(by_key.keys() - arrays.keys())
    left_over = sorted(arrays.keys() - by_key.keys())
    if missing or left_over:
        raise InputError(
            f"{path} does not fit the model: it lacks {_some(missing)} and "
            f"has {_some(left_over)} more than the model. Load it into a "
            "model with the same config."
        )
    for key, variable in by_key.items():
        if arrays[key].shape != tuple(variable.shape):
            raise InputError(
                f"{path} does not fit the model: {key} must have shape "
                f"{tuple(variable.shape)}. Received: {arrays[key].shape}."
            )
    for key, variable in by_key.items():
        variable.assign(arrays[key])


def weight_name(variable: "keras.Variable") -> str:
    """Returns the name of a variable in a file that `save_weights` wrote."""
    return variable.path.split("/", 1)[-1]


def load_arrays(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """Reads a `.safetensors` file as a dict of NumPy arrays.

    Raises:
        InputError: if the file is missing, cut short or damaged.
    """
    if not os.path.isfile(path):
        raise InputError(f"No weights at {path}.")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} cannot be read: it is cut short, damaged or not a "
            f".safetensors file ({error})."
        ) from error


def _some(names: Sequence[str], most: int = 3) -> str:
    if not names:
        return "nothing"
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
