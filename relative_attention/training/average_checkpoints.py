"""The mean of several checkpoints' weights."""

import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import safe_open

from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.files import recover_directory
from relative_attention.training.checkpoint import checked_weights


def average_checkpoints(
    paths: Sequence[str | pathlib.Path], output: str | pathlib.Path
) -> None:
    """Writes the mean of the weights of several checkpoints.

    The mean of the last few is what Vaswani et al. (2017, section 6.1) and
    tensor2tensor's `avg_checkpoints` evaluate. Sums are taken in float64. One
    array of one file is in memory at a time, whatever their number and size.
    The weights of a checkpoint are compared with its checksum first.

    Args:
        paths: list of `.safetensors` files, or of checkpoint folders with a
            `model.safetensors`.
        output: path of the `.safetensors` file to write.

    Raises:
        InputError: if there is no path, a file cannot be read or is damaged,
            or the files do not have the same arrays; before any work.
    """
    if not paths:
        raise InputError("`paths` must name at least one checkpoint.")
    files = [_weights_file(path) for path in paths]
    _check_alike(files)
    with open(files[0], "rb") as first:
        header_bytes = int.from_bytes(first.read(8), "little")
        first.seek(0)
        header = first.read(8 + header_bytes)
    with atomic_file(output) as file:
        # The mean has the arrays of the first file at the same places.
        file.write(header)
        for name in _read(files[0], lambda arrays: arrays.offset_keys()):
            file.write(_mean(files, name).tobytes())


def _mean(files: Sequence[pathlib.Path], name: str) -> np.ndarray:
    total: Any = None
    for file in files:
        # Opened anew for each array: what is mapped counts as memory.
        array = _read(file, lambda arrays: arrays.get_tensor(name))
        if total is None:
            total = np.zeros(array.shape, np.float64)
        total += array
    total /= len(files)
    return total.astype(array.dtype)


def _check_alike(files: Sequence[pathlib.Path]) -> None:
    first = _read(files[0], _kinds)
    for file in files[1:]:
        other = _read(file, _kinds)
        if other == first:
            continue
        name = next(
            name
            for name in [*first, *other]
            if first.get(name) != other.get(name)
        )
        raise InputError(
            f"{file} and {files[0]} cannot be averaged: of {name} the one has "
            f"{_described(other.get(name))}, the other "
            f"{_described(first.get(name))}. Models must be of one "
            "architecture and vocabulary, and of one type of numbers: "
            "`relative-attention export MODEL --format model --dtype float16 "
            "FOLDER` gives that of the models in the zoo."
        )


def _described(kind: tuple[list[int], str] | None) -> str:
    if kind is None:
        return "nothing"
    shape, dtype = kind
    # "F16" is float16, "BF16" bfloat16.
    return f"{dtype.replace('F', 'float').lower()} of shape {tuple(shape)}"


def _kinds(arrays: Any) -> dict[str, tuple[list[int], str]]:
    """Returns shape and type of each array, as JSON has them."""
    slices = {name: arrays.get_slice(name) for name in arrays.keys()}
    return {
        name: (part.get_shape(), part.get_dtype())
        for name, part in slices.items()
    }


def _read(path: pathlib.Path, what: Callable[[Any], Any]) -> Any:
    """Returns `what` of an open `.safetensors` file, checked to be whole."""
    if not path.is_file():
        raise InputError(f"No weights at {path}.")
    try:
        with safe_open(path, framework="np") as arrays:
            return what(arrays)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} cannot be read: it is cut short, damaged or not a "
            f".safetensors file ({error})."
        ) from error


def _weights_file(path: str | pathlib.Path) -> pathlib.Path:
    path = pathlib.Path(path)
    recover_directory(path)
    if path.is_dir():
        return checked_weights(path)
    if path.name == "model.safetensors":
        return checked_weights(path.parent)
    return path
