"""Draws what every head of a model attends to in one sentence."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from relative_attention.plot.figure import make_figure
from relative_attention.plot.mosaic import centers
from relative_attention.plot.mosaic import mosaic
from relative_attention.plot.token_labels import label_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Decoder to source",
}


def attention_figure(
    scores: Mapping[str, Sequence[np.ndarray]],
    source: Sequence[str],
    target: Sequence[str],
) -> "Figure":
    """Draws all attention of a sentence pair.

    On the left, which source tokens the last decoder block looks at for each
    target token (mean of the heads); on the right, small, every head (a
    column) of every block (a row).

    Args:
        scores: dict of lists of arrays `(N, T, S)`, one for each block:
            `"encoder"`, `"decoder"` and `"cross"`.
        source: list of strings, the tokens attended to.
        target: list of strings, the tokens that are predicted.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    # A constrained layout takes most of the time.
    figure = make_figure((14, 9), layout="none")
    grid = figure.add_gridspec(
        3, 2, left=0.1, right=0.98, top=0.95, bottom=0.15, hspace=0.3
    )
    alignment = figure.add_subplot(grid[:, 0])
    image = draw_alignment(
        alignment, scores["cross"][-1], source, target, inches=(5, 6.5)
    )
    figure.colorbar(image, ax=alignment, fraction=0.04, pad=0.02, aspect=40)
    for row, (name, title) in enumerate(_TITLES.items()):
        axes = figure.add_subplot(grid[row, 1])
        image = _draw_heads(axes, scores[name])
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=40)
        axes.set_title(f"{title}, every block and head", fontsize="small")
    return figure


def draw_alignment(
    axes: "Axes",
    scores: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    inches: tuple[float, float],
) -> "AxesImage":
    """Draws scores `(N, T, S)`, the mean of the heads, with the tokens.

    Returns:
        matplotlib image, about `inches` wide and high.
    """
    axes.set_title("Decoder to source, last block, mean of heads")
    label_tokens(axes, inches, target, source)
    return axes.imshow(scores.mean(axis=0), cmap="Blues", vmin=0, aspect="auto")


def _draw_heads(axes: "Axes", blocks: Sequence[np.ndarray]) -> "AxesImage":
    """Draws arrays `(N, T, S)` side by side, in one image with one scale."""
    num_heads, num_rows, num_columns = blocks[0].shape
    image = axes.imshow(mosaic(blocks), cmap="Blues", vmin=0, aspect="auto")
    axes.set_facecolor("lightgray")
    axes.set_xticks(
        centers(num_heads, num_columns),
        [f"head {head}" for head in range(num_heads)],
        fontsize="x-small",
    )
    axes.set_yticks(
        centers(len(blocks), num_rows),
        [f"block {block}" for block in range(len(blocks))],
        fontsize="x-small",
    )
    return image
