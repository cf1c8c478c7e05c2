"""Refusal to write where something is."""

import pathlib

from relative_attention.errors import InputError


def check_is_free(output):
    """Raise `InputError` if there is something at `output`.

    An empty folder is nothing.
    """
    output = pathlib.Path(output)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(
            f"{output} is there already. Choose another folder, or delete it."
        )
