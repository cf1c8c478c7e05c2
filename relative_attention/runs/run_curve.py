"""Loads the curve of a run, finished or not."""

import pathlib
from typing import Any

from relative_attention.errors import InputError
from relative_attention.files import read_json
from relative_attention.saving.model_directory import load_results
from relative_attention.training import TRAINING_TABLE
from relative_attention.training import read_training_table
from relative_attention.zoo import find_curve


def load_curve(directory: pathlib.Path | str) -> list[dict[str, float]]:
    """Returns how training went so far, as a run's folder has it.

    That is `training.csv`, which is there from the first validation on, or
    the `history.json` of an earlier version, or the `curve` in
    `results.json`, which the zoo's folders have alone.

    Args:
        directory: The path of the folder, or a name of the zoo.

    Returns:
        A list of dicts of numbers, one for each validation.

    Raises:
        InputError: if the folder has no such file, there was no validation
            yet, or the file is damaged.
    """
    folder = find_curve(directory)
    table = folder / TRAINING_TABLE
    history = folder / "history.json"
    curve: Any
    if table.is_file():
        curve = read_training_table(table)
    elif history.is_file():
        try:
            curve = read_json(history)
        except (OSError, ValueError) as error:
            raise InputError(f"{history} is damaged: {error}.") from error
        _check_curve(curve, history)
    elif (folder / "results.json").is_file():
        curve = load_results(folder).get("curve")
        _check_curve(curve, folder / "results.json")
    else:
        raise InputError(
            f"Nothing to draw in {folder}: it must hold {TRAINING_TABLE}, "
            "history.json or results.json. A run has them from its first "
            "validation on."
        )
    if not curve:
        raise InputError(
            f"Nothing to draw in {folder} yet: the run has not come to its "
            "first validation."
        )
    return curve


def _check_curve(curve: Any, path: pathlib.Path) -> None:
    if not isinstance(curve, list) or not all(map(_is_record, curve)):
        raise InputError(
            f"{path} is damaged: the curve of a run must be a list of numbers "
            "by name, a `step` among them."
        )


def _is_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and "step" in record
        and all(isinstance(value, int | float) for value in record.values())
    )
