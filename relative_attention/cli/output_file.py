"""Checks where a command writes."""

import os

from relative_attention.errors import InputError


def check_output(path: str | None) -> None:
    """Refuses what cannot become a file, before hours of work and not after.

    Devices and pipes are written to as they are; a link is followed.

    Raises:
        InputError: if `path` is a folder or closed to writing, or its folder
            is none or closed.
    """
    if path is None:
        return
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give the name of a file.")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise InputError(
            f"{path} cannot be written: its permissions do not allow it. "
            "Change them, or give another name."
        )
    if os.path.exists(path) and not os.path.isfile(path):
        return
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise InputError(f"{path} cannot be written: {folder} is no folder.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: {folder} allows no files.")
