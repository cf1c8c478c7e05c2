"""Writes tokens along the axes of an image, however many there are."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A label has so many inches for itself, from small print up.
INCHES_A_TOKEN = 0.12
_POINTS_AN_INCH = 72
# A line of text is higher than its letters by this factor.
_LINE_HEIGHT = 1.25
_SMALLEST, _LARGEST = 4.5, 10.0


def label_tokens(
    axes: "Axes",
    inches: tuple[float, float],
    queries: Sequence[str],
    keys: Sequence[str],
) -> None:
    """Names the rows and columns of an image, no label over another.

    The more tokens there are, the smaller the print; where even the smallest
    does not fit, only every second token is named, or every third.

    Args:
        axes: matplotlib axes with an image.
        inches: pair of floats. About how wide and how high the image is.
        queries: list of strings, the tokens of the rows.
        keys: list of strings, the tokens of the columns.
    """
    width, height = inches
    _label(axes.set_xticks, keys, width, rotation=90)
    _label(axes.set_yticks, queries, height)


def _label(
    set_ticks: Callable, tokens: Sequence[str], inches: float, **style: Any
) -> None:
    """Labels one axis that is so many inches long."""
    points = _POINTS_AN_INCH * inches / max(len(tokens), 1) / _LINE_HEIGHT
    step = max(1, -int(-_SMALLEST // points))
    set_ticks(
        range(0, len(tokens), step),
        tokens[::step],
        fontsize=min(_LARGEST, step * points),
        # A token may hold dollar signs, matplotlib's marks of a formula.
        parse_math=False,
        **style,
    )
