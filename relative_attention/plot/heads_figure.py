"""Draws what each head of one attention attends to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from relative_attention.plot.figure import make_figure
from relative_attention.plot.token_labels import INCHES_A_TOKEN
from relative_attention.plot.token_labels import label_tokens
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.figure import FigureBase

_MOST_COLUMNS = 4
# The side of an image, in inches, is as long as its tokens need, within these.
_SMALLEST, _LARGEST = 1.9, 6.0


def heads_figure(
    scores: Tensor,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    title: str = "Attention by head",
) -> "Figure":
    """Draws the attention scores of every head, side by side.

    A row is a token that attends, a column one that is attended to; the
    darker, the more, by one scale for all heads.

    Args:
        scores: array `(N, T, S)` of one sentence and one layer.
        queries: list of `T` strings, the tokens that attend.
        keys: list of `S` strings, the tokens attended to. Defaults to
            `None`, `queries`.
        title: string. The title of the figure.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
        ValueError: if the scores are not those of such tokens.

    Example:
    >>> _, scores = layer(x, return_attention_scores=True)
    >>> ra.plot.heads_figure(scores[0], words)
    """
    scores = np.asarray(scores)
    keys = queries if keys is None else keys
    if scores.ndim != 3 or scores.shape[1:] != (len(queries), len(keys)):
        raise ValueError(
            f"`scores` must have shape (N, {len(queries)}, {len(keys)}) for "
            f"{len(queries)} queries and {len(keys)} keys. Received shape: "
            f"{scores.shape}. Of a batch, take one sentence: `scores[0]`."
        )
    columns = min(len(scores), _MOST_COLUMNS)
    rows = -(-len(scores) // columns)
    width, height = inches = _panel(keys), _panel(queries)
    # Beside a panel its tokens, beside all of them the scale.
    figure = make_figure(
        (1 + (width + 0.7) * columns, 0.6 + (height + 0.9) * rows)
    )
    figure.suptitle(title)
    draw_heads(figure, scores, queries, keys, columns, inches)
    return figure


def draw_heads(
    figure: "FigureBase",
    scores: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    num_columns: int,
    inches: tuple[float, float],
) -> None:
    """Draws scores `(N, T, S)`, a panel a head, in so many columns.

    `inches` is about how wide and how high the image of a head is.
    """
    num_rows = -(-len(scores) // num_columns)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    most = scores.max()
    for head, axes in enumerate(grid.flat):
        if head >= len(scores):
            axes.set_axis_off()
            continue
        image = axes.imshow(
            scores[head], cmap="Blues", vmin=0, vmax=most, aspect="auto"
        )
        axes.set_title(f"head {head + 1}", fontsize="small")
        label_tokens(axes, inches, queries, keys)
    figure.colorbar(image, ax=grid, label="attention score")


def _panel(tokens: Sequence[str]) -> float:
    """Returns the side of an image, in inches, with room for its tokens."""
    return min(max(INCHES_A_TOKEN * len(tokens), _SMALLEST), _LARGEST)
