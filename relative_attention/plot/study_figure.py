"""Draws what a study found: BLEU of each recipe, and of each seed."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.plot.figure import make_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES = 4.5


def study_figure(
    table: Sequence[Mapping[str, Any]],
    title: str = "BLEU on the test text",
    axis: str | None = None,
) -> "Figure":
    """Draws a point for each seed, and the mean with its standard deviation.

    Rows of one group share a panel. With `axis`, BLEU is drawn by the value
    of each row, on a logarithmic scale that has 0.

    Args:
        table: list of dicts. What the results file of a study has under
            `"table"`.
        title: string. The title of the figure.
        axis: string. What the values of the rows are called. Defaults to
            `None`: rows stand side by side.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
        ValueError: if no run is finished.
    """
    drawn = [row for row in table if row["bleu"]]
    if not drawn:
        raise ValueError("`table` must have a run that is finished.")
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in drawn:
        groups.setdefault(row["group"], []).append(row)
    figure = make_figure((_INCHES * len(groups) + 1, 4.2))
    figure.suptitle(title)
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for panel, (group, rows) in zip(panels, groups.items()):
        _draw(panel, rows, axis)
        panel.set_title(group, fontsize="medium")
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("BLEU, test, cased")
    return figure


def _draw(
    panel: "Axes", rows: Sequence[Mapping[str, Any]], axis: str | None
) -> None:
    """Draws the rows of one group."""
    if axis is None:
        places = list(range(len(rows)))
        panel.set_xticks(places, [row["label"] for row in rows], rotation=15)
        panel.set_xlim(-0.5, len(rows) - 0.5)
        line = ""
    else:
        rows = sorted(rows, key=lambda row: row["axis"])
        places = [row["axis"] for row in rows]
        # Linear up to 1, as there is no logarithm of 0.
        panel.set_xscale("symlog", linthresh=1)
        panel.set_xticks(places, [f"{place:g}" for place in places])
        panel.minorticks_off()
        panel.set_xlabel(axis)
        line = "-"
    for place, row in zip(places, rows):
        scores = list(row["bleu"].values())
        panel.plot([place] * len(scores), scores, ".", color="gray", zorder=3)
    panel.errorbar(
        places,
        [row["test_bleu"]["mean"] for row in rows],
        yerr=[row["test_bleu"]["standard_deviation"] or 0 for row in rows],
        fmt=f"o{line}",
        capsize=4,
    )
