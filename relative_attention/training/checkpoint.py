"""A training run's state, to go on from."""

import json
import pathlib

import numpy as np

from relative_attention.atomic_files import atomic_directory
from relative_attention.errors import InputError
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import save_weights


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
        (folder / "state.json").write_text(json.dumps(state))


def load_checkpoint(model, directory):
    """Read what `save_checkpoint` wrote into a model compiled alike.

    Returns:
        The `state`.

    Raises:
        InputError: if the checkpoint is incomplete, damaged, or of another
            model.
    """
    directory = pathlib.Path(directory)
    model.optimizer.build(model.trainable_variables)
    variables = _other_variables(model)
    arrays = load_arrays(directory / "training.safetensors")
    if arrays.keys() != variables.keys():
        raise InputError(
            f"{directory} is of a model or optimizer other than this one."
        )
    try:
        state = json.loads((directory / "state.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{directory} is damaged: {error}.") from error
    load_weights(model.weights, directory / "model.safetensors")
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


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
