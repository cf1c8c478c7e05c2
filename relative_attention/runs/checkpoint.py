"""Saves, loads, finds and averages checkpoints.

A checkpoint is a folder with everything that training needs to resume:

    model.safetensors       the weights of the model
    training.safetensors    the optimizer's variables and random generators
    state.json              checksums of both, and the caller's state

A folder gets its name when it is complete (`files.py`), so a process that is
killed while it saves leaves the previous checkpoint intact.
"""

import contextlib
import json
import pathlib
import re
import shutil
import zlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import atomic_file
from relative_attention.files import delete_directory
from relative_attention.files import read_json_object
from relative_attention.models.weights import check_finite
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
    """Writes weights, optimizer and random generators into a folder.

    `state` is for JSON. Of a whole checkpoint that is there already, the arrays
    are kept.
    """
    directory = pathlib.Path(directory)
    # A run that is stopped or killed around a validation reaches the same step
    # twice. The folder is not replaced: a kill could then leave no checkpoint.
    with contextlib.suppress(InputError):
        _read_state(directory, (_WEIGHTS, _OTHERS))
        _write_state(directory, state)
        return
    with atomic_directory(directory) as folder:
        save_weights(model.weights, folder / _WEIGHTS)
        save_arrays(
            {
                name: np.asarray(variable)
                for name, variable in _other_variables(model).items()
            },
            folder / _OTHERS,
        )
        _write_state(folder, state)


def _write_state(directory: pathlib.Path, state: dict[str, Any]) -> None:
    content = {
        "checksums": {
            name: _checksum(directory / name) for name in (_WEIGHTS, _OTHERS)
        },
        # Without it, a changed step or record would go unnoticed.
        "state_checksum": _state_checksum(state),
        "state": state,
    }
    with atomic_file(directory / _STATE) as file:
        file.write(json.dumps(content).encode())


def load_checkpoint(model: keras.Model, directory: str | pathlib.Path) -> Any:
    """Loads a checkpoint into a compiled model; returns its `state`.

    Raises `InputError` if the checkpoint is incomplete or damaged, or if the
    saved model or its optimizer was another. Nothing is assigned then.
    """
    directory = pathlib.Path(directory)
    # Checksums first: a damaged file may still load, with other numbers.
    state = _read_state(directory, (_WEIGHTS, _OTHERS))
    _build_optimizer(model)
    variables = _other_variables(model)
    # Compared before anything is assigned.
    arrays = load_arrays(directory / _OTHERS)
    if _shapes(arrays) != _shapes(variables):
        raise InputError(
            f"{directory} is of a model or optimizer other than this one."
        )
    # It compares names and shapes before it assigns, too.
    load_weights(model.weights, directory / _WEIGHTS)
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def checkpoint_bytes(model: keras.Model) -> int:
    """Returns the approximate size in bytes of a model's checkpoint."""
    _build_optimizer(model)
    variables = [*model.weights, *_other_variables(model).values()]
    # Four bytes each, in mixed precision, too, but for a few counters.
    return sum(4 * int(np.prod(variable.shape)) for variable in variables)


def _read_state(directory: pathlib.Path, names: Sequence[str]) -> Any:
    """Returns the state of a checkpoint, if it and these files are complete."""
    try:
        content = read_json_object(directory / _STATE)
        state, checksums = content["state"], content["checksums"]
        damaged = [
            # Only these names: others in the file could point anywhere.
            name
            for name in names
            if _checksum(directory / name) != checksums[name]
        ]
        if content["state_checksum"] != _state_checksum(state):
            damaged.append(_STATE)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"Checkpoint {directory} is damaged: {error}."
        ) from error
    if damaged:
        raise InputError(
            f"Checkpoint {directory} is damaged: {', '.join(damaged)} is cut "
            "short or was changed."
        )
    return state


def _state_checksum(state: Any) -> int:
    """Returns the checksum of a state, which is the same when read back."""
    return zlib.crc32(json.dumps(state).encode())


def _shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in arrays.items()}


def _build_optimizer(model: keras.Model) -> None:
    # Some optimizers would create all variables again.
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _checksum(path: pathlib.Path) -> int:
    checksum = 0
    with open(path, "rb") as file:
        # In blocks, as a file may be larger than the memory left.
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _other_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the variables of optimizer and random generators, numbered.

    Their paths have counters that depend on earlier objects.
    """
    weights = {id(variable) for variable in model.weights}
    # Keras has no list of its own for random generators.
    generators = [v for v in model.variables if id(v) not in weights]
    return {
        f"{kind}/{number}": variable
        for kind, variables in (
            # Dropout draws from generators that are no weights; a resumed
            # run continues their draws.
            ("optimizer", model.optimizer.variables),
            ("random", generators),
        )
        for number, variable in enumerate(variables)
    }


_NAME = re.compile(r"(?P<kind>step|stop)-(?P<step>\d+)")
# A checkpoint that a process was writing or deleting when it died.
_TORN = re.compile(rf"\.{_NAME.pattern}-(\w{{8}}|gone)")


class RunCheckpoints:
    """Finds, sets aside and deletes the checkpoints of a run.

    `step-00001000` is a checkpoint, `stop-00001234` the checkpoint of a run
    that was stopped. Files with other names, such as `.DS_Store` or the
    `.nfs...` of a network disk, are not touched.

    Args:
        directory: path of the run.
    """

    def __init__(self, directory: str | pathlib.Path) -> None:
        self.directory = pathlib.Path(directory) / "checkpoints"

    def path(self, kind: str, step: int) -> pathlib.Path:
        """Returns the path of the checkpoint of a step."""
        return self.directory / f"{kind}-{step:08}"

    @staticmethod
    def step_of(path: pathlib.Path) -> int:
        """Returns the number of updates done at a checkpoint."""
        match: Any = _NAME.fullmatch(path.name)
        return int(match["step"])

    def regular(self) -> list[pathlib.Path]:
        """Returns the folders of the kind `step`, the oldest first."""
        # Only these are averaged: they do not depend on the clock.
        return [path for path in self.all() if path.name.startswith("step")]

    def all(self) -> list[pathlib.Path]:
        """Returns the folders of both kinds, the oldest first."""
        found = [path for path in self._paths(_NAME) if path.is_dir()]
        # By number, as a step may have more than eight digits.
        return sorted(found, key=lambda path: (self.step_of(path), path.name))

    def all_steps(self) -> list[int]:
        """Returns the steps of all checkpoints, the oldest first."""
        return [self.step_of(path) for path in self.all()]

    def tidy(self) -> None:
        """Deletes what a dead process was writing or deleting.

        Only to be called by the process that writes the run.
        """
        for torn in self._paths(_TORN):
            shutil.rmtree(torn, ignore_errors=True)

    def set_aside(self, checkpoint: pathlib.Path) -> pathlib.Path:
        """Renames a damaged checkpoint, and returns its new path."""
        aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
        # Of an earlier damage at the same step; one copy is enough.
        if aside.exists():
            delete_directory(aside)
        return checkpoint.rename(aside)

    def prune(self, saved: pathlib.Path, keep: int) -> None:
        """Deletes old checkpoints, and those that the next one replaces.

        Args:
            saved: path of the checkpoint just saved; later ones do not count.
            keep: int. How many to keep of the kind `step`.
        """
        step = self.step_of(saved)
        # Later ones are of updates that a restored run makes again.
        written = [p for p in self.regular() if self.step_of(p) <= step]
        stops = [path for path in self.all() if path.name.startswith("stop")]
        for path in [*stops, *written[:-keep]]:
            if path != saved:
                delete_directory(path)

    def _paths(self, pattern: re.Pattern[str]) -> list[pathlib.Path]:
        # Of a folder that is missing, `glob` finds nothing.
        return [
            path
            for path in self.directory.glob("*")
            if pattern.fullmatch(path.name)
        ]


def average_checkpoints(
    paths: Sequence[str | pathlib.Path], output: str | pathlib.Path
) -> None:
    """Writes the mean of the weights of several checkpoints.

    Vaswani et al. (2017, section 6.1) and tensor2tensor's `avg_checkpoints`
    evaluate the mean of the last few. Sums are in float64. The checksums of
    checkpoints are verified first.

    Args:
        paths: list of `.safetensors` files, or of checkpoint folders with a
            `model.safetensors`.
        output: path of the `.safetensors` file to write.

    Raises:
        InputError: if there is no path, a file cannot be read or is damaged,
            or the files do not have the same arrays, or one that is not
            finite. Nothing is written then.
    """
    if not paths:
        raise InputError("`paths` must name at least one checkpoint.")
    files = [_checked_weights(path) for path in paths]
    first = _finite_arrays(files[0])
    # One file at a time, as there may be many.
    sums = {name: array.astype(np.float64) for name, array in first.items()}
    for file in files[1:]:
        arrays = _finite_arrays(file)
        # Before any sum: NumPy would broadcast some shapes silently.
        _check_same_arrays(arrays, first, f"{file} and {files[0]}")
        for name, array in arrays.items():
            sums[name] += array
    means = {
        name: (total / len(files)).astype(first[name].dtype)
        for name, total in sums.items()
    }
    save_arrays(means, output)


def _finite_arrays(file: pathlib.Path) -> dict[str, np.ndarray]:
    """Loads a file of weights, which the mean must not make worse."""
    arrays = load_arrays(file)
    try:
        check_finite(arrays, "float64")
    except InputError as error:
        raise InputError(f"{file} cannot be averaged. {error}") from error
    return arrays


def _check_same_arrays(
    arrays: Mapping[str, np.ndarray],
    first: Mapping[str, np.ndarray],
    files: str,
) -> None:
    for name in (*first, *arrays):
        one, other = (_described(a.get(name)) for a in (arrays, first))
        if one != other:
            raise InputError(
                f"{files} cannot be averaged: of {name} the one has {one}, "
                f"the other {other}. Models must have the same architecture, "
                "vocabulary and dtype: `relative-attention export MODEL "
                "--format model --dtype float16 FOLDER` converts to the dtype "
                "of bundled models."
            )


def _described(array: np.ndarray | None) -> str:
    return (
        "nothing" if array is None else f"{array.dtype} of shape {array.shape}"
    )


def _checked_weights(path: str | pathlib.Path) -> pathlib.Path:
    """Returns a file of weights; those of a checkpoint must be unchanged."""
    path = pathlib.Path(path)
    if path.is_dir():
        path = path / _WEIGHTS
    # A folder without a state has no checksums.
    if path.name == _WEIGHTS and (path.parent / _STATE).exists():
        try:
            _read_state(path.parent, (_WEIGHTS,))
        except InputError as error:
            raise InputError(f"{path} cannot be used. {error}") from error
    return path
