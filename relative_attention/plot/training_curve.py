"""Draws how training went, step by step."""

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

# The title of a panel, and its lines by the name of what they show.
_PANELS = (
    ("loss", {"loss": "training", "val_loss": "validation"}),
    ("perplexity", {"perplexity": "training", "val_perplexity": "validation"}),
    ("accuracy", {"accuracy": "training", "val_accuracy": "validation"}),
    ("BLEU", {"val_bleu": "validation"}),
    ("learning rate", {"learning_rate": "training"}),
    ("gradient norm", {"gradient_norm": "training"}),
)
_COLORS = {"training": "tab:blue", "validation": "tab:orange"}
_NUM_COLUMNS = 3
# What a run that starts from trained weights changes in the others is little.
_FROM_ZERO = ("learning rate", "gradient norm")


def training_curve(curve: Sequence[Mapping[str, Any]], path: AnyPath) -> None:
    """Draws the curves of a run, a panel for each quantity that it has.

    The quantities are loss, perplexity and accuracy of training (with
    dropout, as it is learnt) and of validation, BLEU, learning rate and
    gradient norm, against steps.

    Args:
        curve: list of dicts with `"step"` and, in some, `"loss"`,
            `"val_loss"`, `"val_bleu"` and the like: the history of a run, or
            the `curve` of a `results.json`.
        path: path of the PNG file to write.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    save_figure(curve_figure(curve), path)


def curve_figure(curve: Sequence[Mapping[str, Any]]) -> "Figure":
    """Returns the matplotlib `Figure` that `training_curve` writes."""
    panels = [
        (title, lines)
        for title, lines in _PANELS
        if any(_points(curve, name) for name in lines)
    ]
    num_columns = max(min(len(panels), _NUM_COLUMNS), 1)
    num_rows = max(-(-len(panels) // num_columns), 1)
    figure = make_figure((4 * num_columns, 3 * num_rows))
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, lines) in zip(grid.flat, panels):
        _draw(axes, curve, lines)
        axes.set_title(title)
        axes.set_xlabel("step")
        if title == "perplexity":
            _set_logarithmic(axes)
        elif title in _FROM_ZERO:
            # The margin of what is drawn is too thin where values are close.
            axes.set_ylim(0, 1.05 * axes.dataLim.ymax or 1)
    return figure


def _draw(
    axes: "Axes", curve: Sequence[Mapping[str, Any]], lines: Mapping[str, str]
) -> None:
    """Draws the lines of one panel that the run has."""
    for name, label in lines.items():
        points = _points(curve, name)
        if points:
            axes.plot(
                *zip(*points), color=_COLORS[label], marker=".", label=label
            )
    if len(lines) > 1:
        axes.legend(fontsize="small")


def _set_logarithmic(axes: "Axes") -> None:
    """Sets the scale of what begins near the size of the vocabulary."""
    from matplotlib.ticker import LogFormatter

    axes.set_yscale("log")
    # Plain numbers: values of an end are not powers of ten.
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter())


def _points(
    curve: Sequence[Mapping[str, Any]], name: str
) -> list[tuple[int, float]]:
    """Returns pairs of step and value, without values that are not finite."""
    return [
        (record["step"], record[name])
        for record in curve
        if math.isfinite(record.get(name, math.nan))
    ]
