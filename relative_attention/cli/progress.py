"""Counts translated lines on standard error."""

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

# A job of hours leaves a page of log.
_LOG_SECONDS = 60


def show_progress(num_done: int, total: int | None = None) -> None:
    """Writes over the last count, on a terminal alone."""
    if sys.stderr.isatty():
        of_all = f" of {total:,}" if total else ""
        print(
            f"\r{num_done:,}{of_all} lines", end="", file=sys.stderr, flush=True
        )


class TimeLeft:
    """Writes lines done of all, and the time left, on standard error.

    On a terminal over the last count; elsewhere a line a minute, for the log
    of a job. Called with the number of lines done.

    Args:
        total: int. The number of lines.
        num_before: int. Those that were done before this process.
    """

    def __init__(self, total: int, num_before: int) -> None:
        from relative_attention.runs.translation_progress import (
            TranslationProgress,
        )

        self._progress = TranslationProgress(total, num_before)
        self._last = time.monotonic()

    def __call__(self, num_done: int) -> None:
        if sys.stderr.isatty():
            line = f"\r{self._progress.line(num_done)}\x1b[K"
            print(line, end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._last >= _LOG_SECONDS:
            self._last = time.monotonic()
            print(self._progress.line(num_done), file=sys.stderr, flush=True)


def report_cut(
    num_cut: int, translator: "Translator", after_progress: bool = True
) -> None:
    """Says how many sentences were too long to be translated whole."""
    if after_progress and sys.stderr.isatty():
        print(file=sys.stderr)
    if num_cut:
        print(
            f"{num_cut:,} lines were cut at "
            f"{translator.max_source_length} tokens "
            "(`decoding.max_source_length` of the recipe)",
            file=sys.stderr,
        )
