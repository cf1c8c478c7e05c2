"""Draws training curves and the quality of translations."""

import itertools
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.files import AnyPath
from relative_attention.plot.figure import make_figure
from relative_attention.plot.figure import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The title of each panel, and its lines by the name of the quantity.
_PANELS = {
    "loss": {"loss": "training", "val_loss": "validation"},
    "perplexity": {"perplexity": "training", "val_perplexity": "validation"},
    "accuracy": {"accuracy": "training", "val_accuracy": "validation"},
    "BLEU": {"val_bleu": "validation"},
    "learning rate": {"learning_rate": "training"},
    "gradient norm": {"gradient_norm": "training"},
}
_COLORS = {"training": "tab:blue", "validation": "tab:orange"}
_NUM_COLUMNS = 3
# Other quantities change little in a run that starts from trained weights.
_FROM_ZERO = ("learning rate", "gradient norm")

# Sizes of a study's figure, in inches.
_PANEL_SIZE = (5.5, 4.2)
_ROWS_WIDTH = 7.5
_ROW_HEIGHT = 0.34
# The title of a group and its scale.
_FRAME_HEIGHT = 0.9


def training_curve(curve: Sequence[Mapping[str, Any]], path: AnyPath) -> None:
    """Writes what `curve_figure` draws as a PNG file.

    Args:
        curve: as for `curve_figure`.
        path: path of the PNG file to write.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    save_figure(curve_figure(curve), path)


def curve_figure(curve: Sequence[Mapping[str, Any]]) -> "Figure":
    """Draws the curves of a run, one panel per quantity that it has.

    The quantities are loss, perplexity and accuracy of training (with
    dropout) and of validation, BLEU, learning rate and gradient norm, against
    steps.

    Args:
        curve: list of dicts with `"step"` and, in some, `"loss"`,
            `"val_loss"`, `"val_bleu"` and the like: the history of a run, or
            the `curve` of a `results.json`.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    panels = [
        (title, lines)
        for title, lines in _PANELS.items()
        if any(_points(curve, name) for name in lines)
    ]
    num_columns = max(min(len(panels), _NUM_COLUMNS), 1)
    num_rows = max(-(-len(panels) // num_columns), 1)
    figure = make_figure((4 * num_columns, 3 * num_rows))
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, lines) in zip(grid.flat, panels):
        _draw_lines(axes, curve, lines)
        axes.set_title(title)
        axes.set_xlabel("step")
        if title == "perplexity":
            _set_logarithmic(axes)
        elif title in _FROM_ZERO:
            # matplotlib's own margin is too thin if values are close.
            axes.set_ylim(0, 1.05 * axes.dataLim.ymax or 1)
    return figure


def _draw_lines(
    axes: "Axes", curve: Sequence[Mapping[str, Any]], lines: Mapping[str, str]
) -> None:
    """Draws the lines of one panel for which the run has values."""
    for name, label in lines.items():
        points = _points(curve, name)
        if points:
            axes.plot(
                *zip(*points), color=_COLORS[label], marker=".", label=label
            )
    if len(lines) > 1:
        axes.legend(fontsize="small")


def _points(
    curve: Sequence[Mapping[str, Any]], name: str
) -> list[tuple[int, float]]:
    """Returns pairs of step and finite value."""
    return [
        (record["step"], record[name])
        for record in curve
        if math.isfinite(record.get(name, math.nan))
    ]


def _set_logarithmic(axes: "Axes") -> None:
    from matplotlib.ticker import LogFormatter

    axes.set_yscale("log")
    # Plain numbers, as the last values are no powers of ten.
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter())


def length_figure(
    scores: Sequence[Any] | Mapping[str, Sequence[Any]],
    title: str = "BLEU by length of the source",
) -> "Figure":
    """Draws BLEU against the length of the source.

    Above is a line for each system, with points at the mean lengths of the
    buckets. Below, bars show the number of sentences of each bucket, as BLEU
    of few sentences says little.

    Args:
        scores: what `bleu_by_length` returns, or a dict of such lists by the
            name of the system, all of the same sources.
        title: string. The title of the figure.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
        ValueError: if there is nothing to draw.

    Example:
    >>> lines = ["Ich mag Tee.", "Der Mann fährt ein Rad."]
    >>> scores = ra.bleu_by_length(lines, lines, lines)
    >>> figure = ra.plot.length_figure({"relative": scores})
    >>> figure.savefig("lengths.png")
    """
    systems = scores if isinstance(scores, Mapping) else {"": scores}
    if not all(systems.values()) or not systems:
        raise ValueError(
            "`scores` must be what `bleu_by_length` returns, or a dict of "
            f"that. Received: {scores!r}."
        )
    figure = make_figure((6, 4.5))
    lines, bars = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    # Not all readers tell the colors apart.
    for buckets, marker in zip(systems.values(), itertools.cycle("os^Dv<>P*")):
        lines.plot(
            [bucket.mean for bucket in buckets],
            [bucket.bleu for bucket in buckets],
            marker=marker,
        )
    lines.set_title(title)
    lines.set_ylabel("BLEU")
    best = max(bucket.bleu for line in systems.values() for bucket in line)
    lines.set_ylim(0, 1.1 * best or 1)
    lines.grid(alpha=0.3)
    if isinstance(scores, Mapping):
        # Given line by line: matplotlib hides labels that begin with "_", and
        # a path may.
        lines.legend(lines.lines, list(systems), fontsize="small")
    buckets = next(iter(systems.values()))
    bars.bar(
        [(bucket.least + bucket.most) / 2 for bucket in buckets],
        [bucket.num_sentences for bucket in buckets],
        [bucket.most - bucket.least + 1 for bucket in buckets],
        color="lightgray",
        edgecolor="gray",
    )
    bars.set_ylabel("sentences")
    bars.set_xlabel("words of the source")
    return figure


def study_figure(
    table: Sequence[Mapping[str, Any]],
    title: str = "BLEU on the test text",
    axis: str | None = None,
) -> "Figure":
    """Draws a point for each seed, and the mean with its standard deviation.

    Rows of one group share a panel, the first row on top. With `axis`, BLEU
    is drawn by the value of each row, on a logarithmic scale that includes 0.

    Args:
        table: list of dicts, the `"table"` of a study's results file.
        title: string. The title of the figure.
        axis: string. The name of the values of the rows. Defaults to `None`:
            each row has its own line, and BLEU grows to the right.

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
    """Draws a line per row, and panels one above the other."""
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
        # Linear up to 1, as 0 has no logarithm.
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
    """Returns the mean of each row and its deviation, nan with one seed."""
    scores = [row["test_bleu"] for row in rows]
    deviations = [score["standard_deviation"] for score in scores]
    return (
        [score["mean"] for score in scores],
        [math.nan if some is None else some for some in deviations],
    )
