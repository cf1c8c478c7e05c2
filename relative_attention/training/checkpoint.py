"""Checkpoints: all that a training needs to go on, in a folder.

    model.safetensors       the weights of the model
    training.safetensors    the optimizer's variables and random generators
    state.json              checksums of both, and the caller's state

A folder takes its name when it is complete (`files.py`), so that a
process that is killed while it saves leaves the checkpoint before.
"""

import json
import pathlib
import zlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import read_json_object
from relative_attention.files import recover_directory
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import save_weights

_BLOCK_BYTES = 2**22
_WEIGHTS = "model.safetensors"
_OTHERS = "training.safetensors"
_STATE = "state.json"


def save_checkpoint(
    model: keras.Model, directory: str | pathlib.Path, state: dict[str, Any]
) -> None:
    """Writes all that a run needs to go on as if it had never stopped.

    Weights, optimizer and random generators, in a folder that takes its name
    only when it is complete.

    Args:
        model: compiled Keras model.
        directory: path of the folder.
        state: dict for JSON, whatever else the run must remember.
    """
    with atomic_directory(directory) as folder:
        save_weights(model.weights, folder / _WEIGHTS)
        save_arrays(
            {
                name: np.asarray(variable)
                for name, variable in _other_variables(model).items()
            },
            folder / _OTHERS,
        )
        checksums = {
            name: _checksum(folder / name) for name in (_WEIGHTS, _OTHERS)
        }
        content = {
            "checksums": checksums,
            "state_checksum": _state_checksum(state),
            "state": state,
        }
        (folder / _STATE).write_text(json.dumps(content))


def load_checkpoint(
    model: keras.Model,
    directory: str | pathlib.Path,
    read_state: Callable[[Any], Any] = lambda state: state,
) -> Any:
    """Reads what `save_checkpoint` wrote into a model compiled alike.

    Nothing is assigned unless all of it is whole.

    Args:
        model: compiled Keras model.
        directory: path of the folder.
        read_state: function of the `state`, which raises `ValueError` where
            it is not what it should be. Defaults to taking any.

    Returns:
        The `state`, or what `read_state` made of it.

    Raises:
        InputError: if the checkpoint is incomplete, damaged, or of another
            model.
    """
    directory = pathlib.Path(directory)
    recover_directory(directory)
    state = _read_state(directory, (_WEIGHTS, _OTHERS))
    try:
        state = read_state(state)
    except ValueError as error:
        raise _damaged(directory, error) from error
    _build_optimizer(model)
    variables = _other_variables(model)
    arrays = load_arrays(directory / _OTHERS)
    if _shapes(arrays) != _shapes(variables):
        raise InputError(
            f"{directory} is of a model or optimizer other than this one."
        )
    load_weights(model.weights, directory / _WEIGHTS)
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def checked_weights(directory: str | pathlib.Path) -> pathlib.Path:
    """Returns the file of a checkpoint's weights, if its checksum is right.

    Args:
        directory: path of the folder. One without `state.json` has no
            checksums, and is taken as it is.

    Returns:
        `pathlib.Path`; whether it is there is not said.

    Raises:
        InputError: if the file is not as it was written.
    """
    directory = pathlib.Path(directory)
    recover_directory(directory)
    path = directory / _WEIGHTS
    if (directory / _STATE).exists():
        try:
            _read_state(directory, (_WEIGHTS,))
        except InputError as error:
            raise InputError(f"{path} cannot be used. {error}") from error
    return path


def checkpoint_bytes(model: keras.Model) -> int:
    """Returns about how many bytes a checkpoint of a compiled model takes."""
    _build_optimizer(model)
    variables = [*model.weights, *_other_variables(model).values()]
    return sum(4 * int(np.prod(variable.shape)) for variable in variables)


def _read_state(directory: pathlib.Path, names: Sequence[str]) -> Any:
    """Returns the state of a checkpoint, if these files of it are whole."""
    try:
        content = read_json_object(directory / _STATE)
        state, checksums = content["state"], content["checksums"]
        damaged = [
            # No names but these: those of a stranger could lead anywhere.
            name
            for name in names
            if _checksum(directory / name) != checksums[name]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(directory, error) from error
    # Those of an earlier version have none of the state.
    if content.get("state_checksum") not in (None, _state_checksum(state)):
        damaged.append(_STATE)
    if damaged:
        raise InputError(
            f"Checkpoint {directory} is damaged: {', '.join(damaged)} is cut "
            "short or was changed."
        )
    return state


def _damaged(directory: pathlib.Path, error: Exception) -> InputError:
    return InputError(f"Checkpoint {directory} is damaged: {error}.")


def _state_checksum(state: Any) -> int:
    """Returns the checksum of a state as JSON, the same when read again."""
    return zlib.crc32(json.dumps(state).encode())


def _shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in arrays.items()}


def _build_optimizer(model: keras.Model) -> None:
    # Some optimizers would make all their variables anew.
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _checksum(path: pathlib.Path) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _other_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns optimizer and random generators, by names that do not change.

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
