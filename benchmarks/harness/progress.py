"""A line on the terminal that says how far a benchmark is."""

import sys


def show_progress(text: str = "") -> None:
    """Replaces the progress line on a terminal; nothing goes to a file.

    Args:
        text: A string. Defaults to `""`, which takes the line away.
    """
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
