"""What each head of one attention attends to."""

import numpy as np

from relative_attention.plot.figure import make_figure

_MOST_COLUMNS = 4


def heads_figure(scores, queries, keys=None, title="Attention by head"):
    """Draw the attention scores of every head, side by side.

    A row is a token that attends, a column one that is attended to; the
    darker, the more.

    Args:
        scores: array `(N, T, S)`: of one sentence, one layer.
        queries: list of `T` strings, the tokens that attend.
        keys: list of `S` strings, the tokens attended to. Defaults to
            `None`, `queries`.
        title: string.

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
    figure = make_figure((1 + 2.4 * columns, 0.8 + 2.4 * rows))
    figure.suptitle(title)
    draw_heads(figure, scores, queries, keys, columns)
    return figure


def draw_heads(figure, scores, queries, keys, num_columns):
    """Draw scores `(N, T, S)`, a panel a head, in so many columns."""
    num_rows = -(-len(scores) // num_columns)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for head, axes in enumerate(grid.flat):
        if head >= len(scores):
            axes.set_axis_off()
            continue
        axes.imshow(scores[head], cmap="Blues", vmin=0, aspect="auto")
        axes.set_title(f"head {head + 1}", fontsize="small")
        # A token may hold dollar signs, matplotlib's marks of a formula.
        axes.set_xticks(range(len(keys)), keys, rotation=90, parse_math=False)
        axes.set_yticks(range(len(queries)), queries, parse_math=False)
        axes.tick_params(labelsize="x-small")
