"""Draws relation embeddings by distance."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from relative_attention.plot.figure import make_figure
from relative_attention.plot.mosaic import centers
from relative_attention.plot.mosaic import mosaic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_TITLES = {"key": "w$^K$, added to keys", "value": "w$^V$, added to values"}
_LINES = {"key": "-", "value": ":"}
# Rows of a heat map between two blocks.
_GAP = 4


def relation_figure(tables: Mapping[str, np.ndarray], title: str) -> "Figure":
    """Draws the relation embeddings of some blocks.

    A heat map of the tables for keys and one of those for values, distance
    against dimension: the blocks one below the other, and in each the heads
    where they have tables of their own. Beside them the length of the
    embeddings by distance, mean of the heads: a line a block, dotted for
    values.

    Args:
        tables: dict of arrays `(N, 2K + 1, H)`, see `relation_tables`.
        title: string. The title of the figure.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    sides = _by_side(tables)
    num_blocks = max((len(blocks) for blocks in sides.values()), default=0)
    width, height = 4 * (len(sides) + 1), min(max(2 * num_blocks, 3.5), 8)
    # A constrained layout takes most of the time, so these are its margins:
    # inches for the names of the blocks, titles, and what axes are.
    figure = make_figure((width, height), layout="none")
    figure.subplots_adjust(
        left=1.4 / width,
        right=1 - 0.3 / width,
        top=1 - 0.8 / height,
        bottom=0.6 / height,
    )
    figure.suptitle(title, y=1 - 0.1 / height, va="top")
    *heat_maps, lengths = figure.subplots(1, len(sides) + 1)
    for axes, (side, blocks) in zip(heat_maps, sides.items()):
        draw_relation_tables(axes, list(blocks.values()))
        axes.set_title(_TITLES[side])
        height = _rows(next(iter(blocks.values()))).shape[0]
        labels = blocks if axes is heat_maps[0] else [""] * len(blocks)
        axes.set_yticks(centers(len(blocks), height, _GAP), labels)
        _draw_lengths(lengths, side, blocks)
        if axes is heat_maps[0]:
            lengths.legend(fontsize="x-small")
    lengths.set_title("length of embeddings (values dotted)", fontsize="medium")
    lengths.set_xlabel("distance in tokens")
    lengths.set_ylim(bottom=0)
    return figure


def _by_side(
    tables: Mapping[str, np.ndarray],
) -> dict[str, dict[str, np.ndarray]]:
    """Sorts tables named `BLOCK/SIDE` by side, then by block."""
    sides: dict[str, dict[str, np.ndarray]] = {side: {} for side in _TITLES}
    for name, table in tables.items():
        block, side = name.rsplit("/", 1)
        sides[side][block.replace("_", " ")] = table
    return {side: blocks for side, blocks in sides.items() if blocks}


def draw_relation_tables(
    axes: "Axes", tables: Sequence[np.ndarray]
) -> "AxesImage":
    """Draws a heat map of tables `(N, 2K + 1, H)`, one below the other.

    Returns:
        matplotlib image.
    """
    rows = [_rows(table) for table in tables]
    most = max(np.abs(table).max() for table in tables)
    image = mosaic([[row] for row in rows], _GAP)
    # Of 2K + 1 columns the middle one is distance 0.
    limit = tables[0].shape[1] // 2
    axes.set_facecolor("lightgray")
    axes.set_xlabel("distance in tokens")
    return axes.imshow(
        image,
        cmap="RdBu",
        vmin=-most,
        vmax=most,
        aspect="auto",
        extent=(-limit - 0.5, limit + 0.5, len(image) - 0.5, -0.5),
    )


def _rows(table: np.ndarray) -> np.ndarray:
    """Returns a table `(N, 2K + 1, H)` as a matrix, a column a distance."""
    return mosaic([[head.T] for head in table])


def _draw_lengths(
    axes: "Axes", side: str, blocks: Mapping[str, np.ndarray]
) -> None:
    """Draws the norm of the embeddings by distance, a line a block."""
    for number, (block, table) in enumerate(blocks.items()):
        limit = table.shape[1] // 2
        axes.plot(
            np.arange(-limit, limit + 1),
            np.linalg.norm(table, axis=-1).mean(axis=0),
            _LINES[side],
            color=f"C{number}",
            label=block,
        )
