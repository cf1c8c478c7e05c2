"""Standard input, output and error, which may be closed."""

import os
import sys

from relative_attention.errors import InputError


def standard_input():
    """Standard input; `InputError` if the process has none (`<&-`)."""
    if sys.stdin is None:
        raise InputError(
            "Standard input is closed. Give the text with `--input F`, or "
            "through a pipe."
        )
    return sys.stdin


def standard_output():
    """Standard output; `InputError` if the process has none (`>&-`)."""
    if sys.stdout is None:
        raise InputError(
            "Standard output is closed. Name a file with `--output F`."
        )
    return sys.stdout


def replace_closed_error_output():
    """Let what is said to nobody (`2>&-`) go nowhere.

    Python would print it to standard output, among the results.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
