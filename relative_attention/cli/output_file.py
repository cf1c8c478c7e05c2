"""Where a command writes."""

import os

from relative_attention.errors import InputError


def check_output(path):
    """Refuse what cannot become a file, before hours of work and not after.

    Raises:
        InputError: if `path` is a folder, or its folder is none or closed.
    """
    if path is None:
        return
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give the name of a file.")
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise InputError(f"{path} cannot be written: {folder} is no folder.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: {folder} allows no files.")
