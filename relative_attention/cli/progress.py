"""Lines translated, on standard error."""

import sys


def show_progress(num_done, total=None):
    if sys.stderr.isatty():
        of_all = f" of {total:,}" if total else ""
        print(
            f"\r{num_done:,}{of_all} lines", end="", file=sys.stderr, flush=True
        )


def report_cut(num_cut, translator, after_progress=True):
    if after_progress and sys.stderr.isatty():
        print(file=sys.stderr)
    if num_cut:
        print(
            f"{num_cut:,} lines were cut at "
            f"{translator.max_source_length} tokens "
            "(`decoding.max_source_length` of the recipe)",
            file=sys.stderr,
        )
