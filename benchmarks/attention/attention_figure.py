"""The picture of what relative positions cost an attention layer."""

import collections
import pathlib
from collections.abc import Sequence

import matplotlib.figure
from matplotlib.axes import Axes

from benchmarks.attention.layer_kinds import ENGINE_NAMES
from benchmarks.attention.layer_kinds import KERAS
from benchmarks.harness.results import Row
from benchmarks.harness.spread import median


def draw_ratios(rows: Sequence[Row], path: pathlib.Path) -> None:
    """Draws the time of both passes by length, over that of Keras' layer.

    Args:
        rows: A sequence of dicts, the rows of `attention_speed`.
        path: The path of a picture to write.
    """
    distances = sorted({row["max_relative_position"] for row in rows})
    figure = matplotlib.figure.Figure(
        figsize=(4 * len(distances), 3.5), layout="constrained"
    )
    panels = figure.subplots(1, len(distances), sharey=True, squeeze=False)[0]
    for axes, distance in zip(panels, distances):
        chosen = [
            row for row in rows if row["max_relative_position"] == distance
        ]
        _draw_distance(axes, chosen)
        axes.set_title(f"K = {distance}")
    panels[0].set_ylabel("time, forward and backward,\nover Keras' layer")
    panels[0].legend(fontsize=7)
    figure.savefig(path, dpi=100)


def _draw_distance(axes: Axes, rows: Sequence[Row]) -> None:
    """Draws a line for each engine, at one clipping distance."""
    lines = collections.defaultdict(list)
    for row in rows:
        ratio = median(row["backward_over"][KERAS])
        lines[row["engine"]].append((row["tokens"], ratio))
    for engine, points in lines.items():
        axes.plot(*zip(*sorted(points)), marker="o", label=ENGINE_NAMES[engine])
    axes.set(xlabel="tokens", xscale="log", yscale="log")
    lengths = sorted({row["tokens"] for row in rows})
    axes.set_xticks(lengths, map(str, lengths))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
