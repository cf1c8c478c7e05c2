"""Lines of a run's log."""

import sys
from collections.abc import Callable
from typing import TypeAlias

# What is called with each line for the log.
Report: TypeAlias = Callable[[str], object]


def print_error(line: str) -> None:
    """Writes a line to standard error at once, for a log that is followed."""
    print(line, file=sys.stderr, flush=True)


def say_nothing(line: str) -> None:
    """Drops a line: of several machines the chief alone speaks."""
