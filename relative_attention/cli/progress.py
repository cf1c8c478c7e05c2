"""Counts translated lines on standard error."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relative_attention.decoding import Translator


def show_progress(num_done: int, total: int | None = None) -> None:
    """Writes over the last count, on a terminal alone."""
    if sys.stderr.isatty():
        of_all = f" of {total:,}" if total else ""
        print(
            f"\r{num_done:,}{of_all} lines", end="", file=sys.stderr, flush=True
        )


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
