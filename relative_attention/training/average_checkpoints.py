"""The mean of several checkpoints' weights."""

import pathlib

import numpy as np

from relative_attention.errors import InputError
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays


def average_checkpoints(paths, output):
    """Write the mean of the weights of several checkpoints.

    The mean of the last few is what Vaswani et al. (2017, section 6.1) and
    tensor2tensor's `avg_checkpoints` evaluate. Sums are taken in float64.

    Args:
        paths: list of `.safetensors` files, or of checkpoint folders with a
            `model.safetensors`.
        output: path of the `.safetensors` file to write.

    Raises:
        InputError: if there is no path, a file cannot be read, or the files
            do not have the same arrays.
    """
    if not paths:
        raise InputError("`paths` must name at least one checkpoint.")
    files = [_weights_file(path) for path in paths]
    first = load_arrays(files[0])
    sums = {name: array.astype(np.float64) for name, array in first.items()}
    for file in files[1:]:
        arrays = load_arrays(file)
        if _shapes(arrays) != _shapes(sums):
            raise InputError(
                f"{file} and {files[0]} cannot be averaged: they are of "
                "models with different weights."
            )
        for name, array in arrays.items():
            sums[name] += array
    save_arrays(
        {
            name: (total / len(files)).astype(first[name].dtype)
            for name, total in sums.items()
        },
        output,
    )


def _weights_file(path):
    path = pathlib.Path(path)
    return path / "model.safetensors" if path.is_dir() else path


def _shapes(arrays):
    return {name: array.shape for name, array in arrays.items()}
