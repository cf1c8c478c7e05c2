"""A training run's state, to go on from."""

import json
import pathlib
import zlib

import numpy as np

from relative_attention.atomic_files import atomic_directory
from relative_attention.errors import InputError
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import save_weights

_BLOCK_BYTES = 2**22


def save_checkpoint(model, directory, state):
    """Write all that a run needs to go on as if it had never stopped.

    Weights, optimizer and random generators, in a folder that takes its name
    only when it is complete.

    Args:
        model: compiled Keras model.
        directory: path of the folder.
        state: dict for JSON, whatever else the run must remember.
    """
    with atomic_directory(directory) as folder:
        save_weights(model.weights, folder / "model.safetensors")
        save_arrays(
            {
                name: np.asarray(variable)
                for name, variable in _other_variables(model).items()
            },
            folder / "training.safetensors",
        )
        checksums = {path.name: _checksum(path) for path in folder.iterdir()}
        (folder / "state.json").write_text(
            json.dumps({"checksums": checksums, "state": state})
        )


def load_checkpoint(model, directory):
    """Read what `save_checkpoint` wrote into a model compiled alike.

    Nothing is assigned unless all of it is whole.

    Returns:
        The `state`.

    Raises:
        InputError: if the checkpoint is incomplete, damaged, or of another
            model.
    """
    directory = pathlib.Path(directory)
    try:
        content = json.loads((directory / "state.json").read_text())
        state, checksums = content["state"], content["checksums"]
        damaged = [
            name
            for name, checksum in checksums.items()
            if _checksum(directory / name) != checksum
        ]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"Checkpoint {directory} is damaged: {error}."
        ) from error
    if damaged:
        raise InputError(
            f"Checkpoint {directory} is damaged: {', '.join(damaged)} is cut "
            "short or was changed."
        )
    _build_optimizer(model)
    variables = _other_variables(model)
    arrays = load_arrays(directory / "training.safetensors")
    if arrays.keys() != variables.keys():
        raise InputError(
            f"{directory} is of a model or optimizer other than this one."
        )
    load_weights(model.weights, directory / "model.safetensors")
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def checkpoint_bytes(model):
    """About how many bytes a checkpoint of a compiled model takes."""
    _build_optimizer(model)
    variables = [*model.weights, *_other_variables(model).values()]
    return sum(4 * int(np.prod(variable.shape)) for variable in variables)


def _build_optimizer(model):
    # Some optimizers would make all their variables anew.
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _checksum(path):
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _other_variables(model):
    """Optimizer and random generators, by names that do not change.

    Their paths hold counters that depend on what was created before.
    """
    weights = {id(variable) for variable in model.weights}
    generators = [v for v in model.variables if id(v) not in weights]
    return {
        f"{kind}/{number}": variable
        for kind, variables in (
            ("optimizer", model.optimizer.variables),
            ("random", generators),
        )
        for number, variable in enumerate(variables)
    }
