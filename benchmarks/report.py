"""How the benchmarks show what they measured."""

import statistics
import sys


def markdown_table(header, rows):
    """A Markdown table with aligned columns, text left and numbers right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        " | ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        )
        for row in cells
    ]
    rule = " | ".join(
        "-" * width if index == 0 else "-" * (width - 1) + ":"
        for index, width in enumerate(widths)
    )
    lines.insert(1, rule)
    return "\n".join(f"| {line} |" for line in lines)


def spread(values, digits=2):
    """`median (least to greatest)`."""
    low, middle, high = (
        f"{value:,.{digits}f}"
        for value in (min(values), statistics.median(values), max(values))
    )
    return middle if low == high else f"{middle} ({low} to {high})"


def progress(text=""):
    """Replace the progress line on a terminal; nothing goes to a file."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
