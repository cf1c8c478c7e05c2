"""Checks the backend that Keras computes with."""

import importlib.util
import json
import os
import pathlib

from relative_attention.errors import InputError


def check_keras_backend() -> None:
    """Checks that Keras can start, without starting it.

    Raises:
        InputError: if the backend that was chosen is unknown, or its package
            is not installed.
    """
    name, where = _chosen_backend()
    if not name.isidentifier() or importlib.util.find_spec(name) is None:
        raise InputError(
            f"Keras cannot start: {where} is {name!r}, which is no package "
            "that is installed. It must be tensorflow, jax or torch; "
            "`pip install` it, or choose another."
        )


def _chosen_backend() -> tuple[str, str]:
    """Returns the name of the backend, and what says so."""
    variable = os.environ.get("KERAS_BACKEND")
    if variable:
        return variable, "its backend, by the variable KERAS_BACKEND,"
    home = os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras"
    path = pathlib.Path(home) / "keras.json"
    try:
        name = json.loads(path.read_text("utf-8"))["backend"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        name = None
    if not isinstance(name, str):
        return "tensorflow", "its default backend"
    return name, f"its backend, by {path},"
