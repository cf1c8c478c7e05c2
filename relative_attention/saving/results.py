"""Reads what came out of a run, `results.json`."""

import pathlib
from typing import Any

from relative_attention.errors import InputError
from relative_attention.json_file import read_json_object


def load_results(directory: pathlib.Path | str) -> dict[str, Any]:
    """Returns the results of a run, a dict, as training wrote them.

    Args:
        directory: The path of the run.

    Raises:
        InputError: if there is no `results.json`, or it is damaged.
    """
    path = pathlib.Path(directory) / "results.json"
    try:
        return read_json_object(path)
    except OSError as error:
        raise InputError(
            f"No results of a finished run at {path}: {error}."
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
