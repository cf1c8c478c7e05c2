"""Draws what a study found: BLEU of each recipe, and of each seed."""

import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.plot.figure import make_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In inches. A row is a line of words with its BLEU beside it; above and below
# the rows of a group stand its title and its scale.
_PANEL_SIZE = (5.5, 4.2)
_ROWS_WIDTH = 7.5
_ROW_HEIGHT = 0.34
_FRAME_HEIGHT = 0.9


def study_figure(
    table: Sequence[Mapping[str, Any]],
    title: str = "BLEU on the test text",
    axis: str | None = None,
) -> "Figure":
    """Draws a point for each seed, and the mean with its standard deviation.

    Rows of one group share a panel, the first row on top. With `axis`, BLEU
    is drawn by the value of each row; values have a logarithmic scale, and 0
    is on it.

    Args:
        table: list of dicts. What the results file of a study has under
            `"table"`.
        title: string. The title of the figure.
        axis: string. What the values of the rows are called. Defaults to
            `None`: each row has a line of its own, and BLEU grows to the
            right.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
        ValueError: if no run is finished.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in table:
        if row["bleu"]:
            groups.setdefault(row["group"], []).append(row)
    if not groups:
        raise ValueError("`table` must have a run that is finished.")
    figure = _by_row(groups) if axis is None else _by_value(groups, axis)
    figure.suptitle(title)
    for panel, group in zip(figure.axes, groups):
        panel.set_title(group, fontsize="medium")
    return figure


def _by_row(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> "Figure":
    """Draws a line for each row, and panels one above the other."""
    sizes = [len(rows) for rows in groups.values()]
    height = _ROW_HEIGHT * sum(sizes) + _FRAME_HEIGHT * len(sizes)
    figure = make_figure((_ROWS_WIDTH, height))
    panels = figure.subplots(
        len(groups), 1, squeeze=False, height_ratios=[n + 1 for n in sizes]
    )[:, 0]
    for panel, rows in zip(panels, groups.values()):
        levels = range(len(rows))
        for level, row in zip(levels, rows):
            scores = list(row["bleu"].values())
            panel.plot(
                scores, [level] * len(scores), ".", color="gray", zorder=3
            )
        means, deviations = _means(rows)
        panel.errorbar(means, levels, xerr=deviations, fmt="o", capsize=4)
        panel.set_yticks(levels, [row["label"] for row in rows])
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.grid(axis="x", alpha=0.3)
    panels[-1].set_xlabel("BLEU, test, cased")
    return figure


def _by_value(
    groups: Mapping[str, Sequence[Mapping[str, Any]]], axis: str
) -> "Figure":
    """Draws BLEU by the value of each row, and panels side by side."""
    width, height = _PANEL_SIZE
    figure = make_figure((width * len(groups), height))
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for panel, group in zip(panels, groups.values()):
        rows = sorted(group, key=lambda row: row["axis"])
        values = [row["axis"] for row in rows]
        for value, row in zip(values, rows):
            scores = list(row["bleu"].values())
            panel.plot(
                [value] * len(scores), scores, ".", color="gray", zorder=3
            )
        means, deviations = _means(rows)
        panel.errorbar(values, means, yerr=deviations, fmt="o-", capsize=4)
        # Linear up to 1, as there is no logarithm of 0.
        panel.set_xscale("symlog", linthresh=1)
        panel.set_xticks(values, [f"{value:g}" for value in values])
        panel.minorticks_off()
        panel.set_xlabel(axis)
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("BLEU, test, cased")
    return figure


def _means(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[float], list[float]]:
    """Returns the mean of each row and its deviation, none with one seed."""
    scores = [row["test_bleu"] for row in rows]
    deviations = [score["standard_deviation"] for score in scores]
    return (
        [score["mean"] for score in scores],
        [math.nan if some is None else some for some in deviations],
    )
