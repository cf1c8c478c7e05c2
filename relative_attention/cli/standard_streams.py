"""Gives standard input, output and error, which may be closed."""

import os
import sys
from typing import TextIO

from relative_attention.errors import InputError


def standard_input() -> TextIO:
    """Returns standard input; `InputError` if it is closed (`<&-`)."""
    if sys.stdin is None:
        raise InputError(
            "Standard input is closed. Give the text with `--input F`, or "
            "through a pipe."
        )
    return sys.stdin


def standard_output() -> TextIO:
    """Returns standard output; `InputError` if it is closed (`>&-`)."""
    if sys.stdout is None:
        raise InputError(
            "Standard output is closed. Name a file with `--output F`."
        )
    return sys.stdout


def replace_closed_error_output() -> None:
    """Lets messages to a closed standard error (`2>&-`) go nowhere.

    Python would print it to standard output, among the results.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
