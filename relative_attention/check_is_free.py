"""Refuses to write where something is."""

import os
import pathlib

from relative_attention.errors import InputError


def check_is_free(output: str | os.PathLike[str]) -> None:
    """Raises `InputError` if there is something at `output`.

    An empty folder counts as nothing.
    """
    output = pathlib.Path(output)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(
            f"{output} is there already. Choose another folder, or delete it."
        )
