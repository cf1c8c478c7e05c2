"""Draws the picture of `docs/science/idea.md`: which row each edge takes.

    python docs/idea_picture.py docs/images/idea.svg

On the left the sentence, on the right the table of `2K + 1` rows; a cell of the
left has the color of its row. The numbers are those of
`ra.clipped_relative_positions`.
"""

import sys

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import relative_attention as ra

WORDS = "I think therefore I am".split()
LIMIT = 2  # K
COLORS = matplotlib.colormaps["RdYlBu"](np.linspace(0.25, 0.75, 2 * LIMIT + 1))


def draw_edges(axes: Axes) -> None:
    """Draws a cell for each query and key, with its distance."""
    positions = np.arange(len(WORDS))
    rows = np.asarray(
        ra.clipped_relative_positions(positions, positions, LIMIT)
    )
    axes.imshow(COLORS[rows], aspect="auto")
    for query, key in np.ndindex(rows.shape):
        distance = f"{key - query:+d}" if key != query else "0"
        # What is clipped is written as it was before.
        if abs(key - query) > LIMIT:
            distance = f"({distance})"
        axes.text(key, query, distance, ha="center", va="center")
    axes.set_xticks(positions, WORDS)
    axes.set_yticks(positions, WORDS)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("key $j$")
    axes.set_ylabel("query $i$")


def draw_table(axes: Axes) -> None:
    """Draws the rows of a table as vectors, with their distances."""
    generator = np.random.default_rng(0)
    distances = np.arange(-LIMIT, LIMIT + 1)
    width = 8
    for row, color in enumerate(COLORS):
        # Shades of one color represent the numbers of a vector.
        shades = generator.uniform(0.15, 1, (1, width, 1))
        vector = shades * color[:3] + (1 - shades)
        axes.imshow(
            vector,
            extent=(0, width, row + 0.4, row - 0.4),
            aspect="auto",
        )
    labels = [f"$w_{{{distance:+d}}}$" for distance in distances]
    labels[LIMIT] = "$w_0$"
    labels[0] += ", and farther back"
    labels[-1] += ", and farther ahead"
    axes.set_xlim(0, width)
    axes.set_ylim(len(distances) - 0.5, -0.5)
    axes.set_yticks(range(len(distances)), labels)
    axes.yaxis.tick_right()
    axes.set_xticks([])
    axes.set_title("one vector for each distance", fontsize="medium")


def main(path: str) -> None:
    # The same file each time it is drawn.
    matplotlib.rcParams |= {"svg.hashsalt": "idea", "font.size": 11}
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    edges, table = figure.subplots(1, 2, width_ratios=(1.5, 1))
    draw_edges(edges)
    draw_table(table)
    for axes in (edges, table):
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1])
