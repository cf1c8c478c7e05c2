"""Tables of Markdown."""

from collections.abc import Sequence

import tabulate


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], texts: int = 1
) -> str:
    """Returns a Markdown table, its first columns left and the others right.

    Args:
        header: A sequence of strings, the names of the columns.
        rows: A sequence of rows; numbers stand as `str` shows them.
        texts: An integer, how many columns are text.
    """
    return tabulate.tabulate(
        rows,
        header,
        tablefmt="pipe",
        colalign=["left"] * texts + ["right"] * (len(header) - texts),
        # A cell is shown as it is given, "1.50" too.
        disable_numparse=True,
    )
