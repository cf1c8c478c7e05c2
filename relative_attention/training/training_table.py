"""The history of a training as a table, `training.csv`."""

import csv
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.errors import InputError
from relative_attention.files import atomic_file

TRAINING_TABLE = "training.csv"
# What `curve_figure` draws; `results.json` has these of the history, so that
# a picture of the results is that of the run.
CURVE_COLUMNS = (
    "loss",
    "perplexity",
    "accuracy",
    "val_loss",
    "val_perplexity",
    "val_accuracy",
    "val_bleu",
    "learning_rate",
    "gradient_norm",
)
# Always there and in this order, so that scripts may rely on them; what else
# a history has comes after them.
_COLUMNS = (
    "epoch",
    "step",
    "seconds",
    *CURVE_COLUMNS,
    "skipped",
    "tokens",
    "tokens_per_second",
)
_WHOLE_NUMBERS = ("epoch", "step")


def write_training_table(
    history: Sequence[Mapping[str, Any]], path: str | pathlib.Path
) -> None:
    """Writes a history as CSV, whole or not at all.

    Args:
        history: list of dicts of numbers, one for each validation.
        path: path of the file.
    """
    names = dict.fromkeys(_COLUMNS)
    for record in history:
        names.update(dict.fromkeys(record))
    with atomic_file(path, "w") as file:
        writer = csv.DictWriter(file, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)


def read_training_table(path: str | pathlib.Path) -> list[dict[str, Any]]:
    """Reads the history that `write_training_table` wrote.

    Returns:
        List of dicts of floats, `epoch` and `step` of ints, without what was
        not there.

    Raises:
        InputError: if the file is missing or damaged.
    """
    try:
        # A spreadsheet that saved it has put a byte order mark before it.
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except OSError as error:
        raise InputError(f"No table of a training at {path}: {error}.") from (
            error
        )
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    return [_record(row, number, path) for number, row in enumerate(rows, 2)]


def _record(
    row: dict[Any, Any], number: int, path: str | pathlib.Path
) -> dict[str, Any]:
    if None in row or None in row.values() or not row.get("step"):
        raise InputError(
            f"{path}, line {number}: must have a value, or nothing, for every "
            f"column, and a `step`. Received: {list(row.values())}."
        )
    try:
        return {
            name: int(text) if name in _WHOLE_NUMBERS else float(text)
            for name, text in row.items()
            if text
        }
    except ValueError as error:
        raise InputError(
            f"{path}, line {number}: must hold numbers alone ({error})."
        ) from error
