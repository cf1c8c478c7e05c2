"""Draws attention scores, and relation embeddings by distance."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
from keras import ops

from relative_attention.decoding.searcher import check_attention
from relative_attention.decoding.searcher import check_has_steps
from relative_attention.errors import InputError
from relative_attention.files import AnyPath
from relative_attention.plot.attention_terms import sentence_pair
from relative_attention.plot.figure import check_matplotlib
from relative_attention.plot.figure import make_figure
from relative_attention.plot.figure import save_figure
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.figure import FigureBase
    from matplotlib.image import AxesImage

    from relative_attention.decoding import Translator

# All sizes are in inches, except font sizes, which are in points.
_INCHES_A_TOKEN = 0.12
_POINTS_AN_INCH = 72
# The height of a line over the height of its letters.
_LINE_HEIGHT = 1.25
_SMALLEST_PRINT, _LARGEST_PRINT = 4.5, 10.0
# Limits of the size of a panel in `heads_figure`, which depends on the tokens.
_SMALLEST_PANEL, _LARGEST_PANEL = 1.9, 6.0
_MOST_COLUMNS = 4
# `model_figure` draws at most this many heads of a block, and is larger for
# sentences of more than `_FEW_TOKENS`.
_MOST_HEADS = 4
_FEW_TOKENS, _MOST_TOKENS = 28, 84
# Rows of a heat map between the tables of two blocks.
_BLOCK_GAP = 4

_ATTENTIONS = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Decoder to source",
}
_TABLES = {"key": "w$^K$, added to keys", "value": "w$^V$, added to values"}
_LINE_STYLES = {"key": "-", "value": ":"}


def heads_figure(
    scores: Tensor,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    title: str = "Attention by head",
) -> "Figure":
    """Draws the attention scores of every head, side by side.

    A row is a token that attends, a column a token that is attended to. Darker
    is higher, on one scale for all heads.

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
        ValueError: if the shape of the scores does not fit the tokens.

    Example:
    >>> words = ["I", "like", "tea", "."]
    >>> layer = ra.RelativeSelfAttention(2, 8, max_relative_position=4)
    >>> x = keras.random.normal((1, len(words), 16))
    >>> _, scores = layer(x, return_attention_scores=True)
    >>> figure = ra.plot.heads_figure(scores[0], words)
    >>> figure.savefig("heads.png")
    """
    scores = _as_floats(scores)
    keys = queries if keys is None else keys
    if scores.ndim != 3 or scores.shape[1:] != (len(queries), len(keys)):
        raise ValueError(
            f"`scores` must have shape (N, {len(queries)}, {len(keys)}) for "
            f"{len(queries)} queries and {len(keys)} keys. Received shape: "
            f"{scores.shape}. From a batch, take one sentence: `scores[0]`."
        )
    columns = min(len(scores), _MOST_COLUMNS)
    rows = -(-len(scores) // columns)
    width, height = (
        np.clip(_INCHES_A_TOKEN * len(side), _SMALLEST_PANEL, _LARGEST_PANEL)
        for side in (keys, queries)
    )
    # With space for the tokens of each panel, and for the common scale.
    figure = make_figure(
        (1 + (width + 0.7) * columns, 0.6 + (height + 0.9) * rows)
    )
    figure.suptitle(title)
    _draw_heads(figure, scores, queries, keys, columns, (width, height))
    return figure


def _draw_heads(
    figure: "FigureBase",
    scores: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    num_columns: int,
    inches: tuple[float, float],
) -> None:
    """Draws scores `(N, T, S)`, a panel of about these inches per head."""
    num_rows = -(-len(scores) // num_columns)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    most = scores.max()
    for axes in list(grid.flat)[len(scores) :]:
        axes.set_axis_off()
    for head, (axes, matrix) in enumerate(zip(grid.flat, scores)):
        image = axes.imshow(
            matrix, cmap="Blues", vmin=0, vmax=most, aspect="auto"
        )
        axes.set_title(f"head {head + 1}", fontsize="small")
        _label_tokens(axes, inches, queries, keys)
    figure.colorbar(image, ax=grid, label="attention score")


def attention_figure(
    scores: Mapping[str, Sequence[np.ndarray]],
    source: Sequence[str],
    target: Sequence[str],
) -> "Figure":
    """Draws all attention of a sentence pair.

    On the left, the source tokens that the last decoder block attends to for
    each target token (mean of the heads). On the right, small, every head
    (columns) of every block (rows).

    Args:
        scores: dict of lists of arrays `(N, T, S)`, one per block:
            `"encoder"`, `"decoder"` and `"cross"`.
        source: list of strings, the tokens attended to.
        target: list of strings, the tokens that are predicted.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    # A constrained layout would take most of the time.
    figure = make_figure((14, 9), layout="none")
    grid = figure.add_gridspec(
        3, 2, left=0.1, right=0.98, top=0.95, bottom=0.15, hspace=0.3
    )
    alignment = figure.add_subplot(grid[:, 0])
    image = _draw_alignment(
        alignment, scores["cross"][-1], source, target, inches=(5, 6.5)
    )
    figure.colorbar(image, ax=alignment, fraction=0.04, pad=0.02, aspect=40)
    for row, (name, title) in enumerate(_ATTENTIONS.items()):
        axes = figure.add_subplot(grid[row, 1])
        image = _draw_blocks(axes, scores[name])
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=40)
        axes.set_title(f"{title}, every block and head", fontsize="small")
    return figure


def _draw_alignment(
    axes: "Axes",
    scores: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    inches: tuple[float, float],
) -> "AxesImage":
    """Draws the mean over the heads of scores `(N, T, S)`."""
    axes.set_title("Decoder to source, last block, mean of heads")
    _label_tokens(axes, inches, target, source)
    return axes.imshow(scores.mean(axis=0), cmap="Blues", vmin=0, aspect="auto")


def _draw_blocks(axes: "Axes", blocks: Sequence[np.ndarray]) -> "AxesImage":
    """Draws arrays `(N, T, S)`, one row per block, on one scale."""
    num_heads, num_rows, num_columns = blocks[0].shape
    image = axes.imshow(_mosaic(blocks), cmap="Blues", vmin=0, aspect="auto")
    axes.set_facecolor("lightgray")
    axes.set_xticks(
        _centers(num_heads, num_columns),
        [f"head {head}" for head in range(num_heads)],
        fontsize="x-small",
    )
    axes.set_yticks(
        _centers(len(blocks), num_rows),
        [f"block {block}" for block in range(len(blocks))],
        fontsize="x-small",
    )
    return image


def relation_tables(model: Any) -> dict[str, np.ndarray]:
    """Returns the relation embeddings that a `Transformer` has learned.

    Args:
        model: `Transformer`.

    Returns:
        Dict: float32 NumPy arrays `(N, 2K + 1, H)`, with `N` = 1 if heads share
        a table, by names such as `"encoder_block_0/key"`. Tables that the model
        lacks are left out. Row `r` is distance `r - K`. With
        `"relative_global"` they have `2M - 1` rows, in the decoder `M`, and row
        `r` is distance `r - (M - 1)`.
    """
    check_has_steps(model)
    tables = {}
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        layer = block.self_attention
        for side in ("key", "value"):
            table = getattr(layer, f"{side}_relation_embeddings", None)
            if table is not None:
                table = _as_floats(table)
                tables[f"{block.name}/{side}"] = (
                    table if table.ndim == 3 else table[None]
                )
    return tables


def relation_figure(tables: Mapping[str, np.ndarray], title: str) -> "Figure":
    """Draws the relation embeddings of some blocks.

    Heat maps show the tables for keys and those for values, distance against
    dimension: the blocks one below the other, and in each block the heads, if
    they have their own tables. Next to them are the norms of the embeddings by
    distance, mean of the heads: one line per block, dotted for values.

    Args:
        tables: dict of arrays `(N, 2K + 1, H)`, see `relation_tables`.
        title: string. The title of the figure.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if there are no tables, or `matplotlib` is not installed.
        ValueError: if they differ in shape.
    """
    if not tables:
        raise InputError(
            "`tables` must have the relation embeddings of at least one block. "
            "Received: none. Only models with relative positions have them."
        )
    sides: dict[str, dict[str, np.ndarray]] = {}
    for name, table in tables.items():
        # Tables are named `BLOCK/SIDE`.
        block, _, side = name.rpartition("/")
        sides.setdefault(side, {})[block.replace("_", " ")] = table
    num_blocks = max(len(blocks) for blocks in sides.values())
    width, height = 4 * (len(sides) + 1), min(max(2 * num_blocks, 3.5), 8)
    # A constrained layout would take most of the time. The margins hold the
    # names of the blocks, titles, and labels.
    figure = make_figure((width, height), layout="none")
    figure.subplots_adjust(
        left=1.4 / width,
        right=1 - 0.3 / width,
        top=1 - 0.8 / height,
        bottom=0.6 / height,
    )
    figure.suptitle(title, y=1 - 0.1 / height, va="top")
    *heat_maps, norms = figure.subplots(1, len(sides) + 1)
    for axes, (side, blocks) in zip(heat_maps, sides.items()):
        _draw_tables(axes, list(blocks.values()))
        axes.set_title(_TABLES[side])
        num_rows = _rows(next(iter(blocks.values()))).shape[0]
        labels = blocks if axes is heat_maps[0] else [""] * len(blocks)
        axes.set_yticks(_centers(len(blocks), num_rows, _BLOCK_GAP), labels)
        _draw_norms(norms, side, blocks)
        if axes is heat_maps[0]:
            norms.legend(fontsize="x-small")
    norms.set_title("length of embeddings (values dotted)", fontsize="medium")
    norms.set_xlabel("distance in tokens")
    norms.set_ylim(bottom=0)
    return figure


def _draw_tables(axes: "Axes", tables: Sequence[np.ndarray]) -> "AxesImage":
    """Draws a heat map of tables `(N, 2K + 1, H)`, one below the other."""
    most = max(np.abs(table).max() for table in tables)
    image = _mosaic([[_rows(table)] for table in tables], _BLOCK_GAP)
    # The middle one of 2K + 1 columns is distance 0.
    limit = tables[0].shape[1] // 2
    axes.set_facecolor("lightgray")
    axes.set_xlabel("distance in tokens")
    return axes.imshow(
        image,
        cmap="RdBu",
        vmin=-most,
        vmax=most,
        aspect="auto",
        extent=(-limit - 0.5, limit + 0.5, len(image) - 0.5, -0.5),
    )


def _rows(table: np.ndarray) -> np.ndarray:
    """Returns a table `(N, 2K + 1, H)` as a matrix, distances in columns."""
    return _mosaic([[head.T] for head in table])


def _draw_norms(
    axes: "Axes", side: str, blocks: Mapping[str, np.ndarray]
) -> None:
    import matplotlib

    # From light to dark, which all readers tell apart.
    colors = matplotlib.colormaps["viridis_r"](
        np.linspace(0.15, 1, len(blocks))
    )
    for color, (block, table) in zip(colors, blocks.items()):
        limit = table.shape[1] // 2
        axes.plot(
            np.arange(-limit, limit + 1),
            np.linalg.norm(table, axis=-1).mean(axis=0),
            _LINE_STYLES[side],
            color=color,
            label=block,
        )


def model_picture(
    translator: "Translator", sentence: str, path: AnyPath
) -> str:
    """Writes the `model_figure` of the model's own translation.

    Args:
        translator: `Translator`.
        sentence: string. The sentence to translate.
        path: path of the PNG file to write.

    Returns:
        The translation, a string.

    Raises:
        InputError: if `matplotlib` is not installed, or the model is an
            `Ensemble`, which has no attention of its own.
    """
    check_matplotlib()
    check_attention(translator.model)
    translation = translator.search([sentence])[0].text
    save_figure(model_figure(translator, sentence, translation), path)
    return translation


def model_figure(
    translator: "Translator", sentence: str, translation: str | None = None
) -> "Figure":
    """Draws the attention of one translation and the relation embeddings.

    Above: the source tokens that the last decoder block attends to for each
    target token (mean over the heads), and the self-attention of the first
    encoder block, of at most four heads. Below: the relation embeddings of
    that block by distance, w^K and w^V (Shaw et al. 2018, section 3.2), if it
    has them.

    Args:
        translator: `Translator`.
        sentence: string. The sentence that is translated.
        translation: string. Its translation. Defaults to `None`, the
            `translator`'s own.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed, or the model is an
            `Ensemble`, which has no attention of its own.
    """
    check_matplotlib()
    check_attention(translator.model)
    pair = sentence_pair(translator, sentence, translation)
    scores = translator.model.attention_scores(pair.inputs)
    num_tokens = min(max(len(pair.source), len(pair.target)), _MOST_TOKENS)
    scale = max(1, num_tokens / _FEW_TOKENS)
    # Attention takes 13 x 6 inches times the scale, relations 13 x 4.
    figure = make_figure((13 * scale, 6 * scale + 4))
    parts: Any = figure.subfigures(2, 1, height_ratios=(6 * scale, 4))
    top, bottom = parts
    left, right = top.subfigures(1, 2)
    axes = left.subplots()
    image = _draw_alignment(
        axes,
        _as_floats(scores["cross"][-1])[0],
        pair.source,
        pair.target,
        inches=(6.5 * scale - 2, 6 * scale - 1.5),
    )
    left.colorbar(image, ax=axes, label="attention score")
    right.suptitle("Self-attention, first encoder block")
    heads = _as_floats(scores["encoder"][0])[0][:_MOST_HEADS]
    columns = min(len(heads), 2)
    rows = -(-len(heads) // columns)
    inches = ((6.5 * scale - 1) / columns - 1, (6 * scale - 0.5) / rows - 1.1)
    _draw_heads(right, heads, pair.source, pair.source, columns, inches)
    _draw_relations(bottom, translator.model.encoder_blocks[0].self_attention)
    return figure


def _as_floats(values: Any) -> np.ndarray:
    """Returns an array in float32: matplotlib cannot mask bfloat16."""
    return np.asarray(ops.convert_to_numpy(values), "float32")


def _draw_relations(figure: "FigureBase", layer: Any) -> None:
    """Draws the relation tables of a layer, or says that it has none."""
    tables = {}
    for side in _TABLES:
        table = getattr(layer, f"{side}_relation_embeddings")
        if table is not None:
            tables[side] = _as_floats(table)
    if not tables:
        figure.suptitle("This model has no relation embeddings")
        return
    figure.suptitle(
        "Relation embeddings by distance (key position - query position), "
        "first encoder block"
    )
    grid = figure.subplots(1, len(tables), squeeze=False)
    for axes, (side, table) in zip(grid.flat, tables.items()):
        # Heads with their own tables are shown one below the other.
        image = _draw_tables(axes, [table if table.ndim == 3 else table[None]])
        axes.set_title(_TABLES[side])
        axes.set_ylabel("dimension")
        figure.colorbar(image, ax=axes)


def _mosaic(
    rows: Sequence[Sequence[np.ndarray] | np.ndarray], gap: int = 1
) -> np.ndarray:
    """Puts matrices of one shape into one image, with `nan` between them.

    matplotlib draws one image quickly; a plot for each matrix takes seconds.
    """
    gaps = ((0, 0), (0, 0), (0, gap), (0, gap))
    padded = np.pad(np.array(rows, float), gaps, constant_values=np.nan)
    num_rows, _, height, _ = padded.shape
    image = padded.swapaxes(1, 2).reshape(num_rows * height, -1)
    return image[:-gap, :-gap]


def _centers(count: int, size: int, gap: int = 1) -> np.ndarray:
    """Returns the centers of the matrices of a mosaic, on one axis."""
    return np.arange(count) * (size + gap) + (size - 1) / 2


def _label_tokens(
    axes: "Axes",
    inches: tuple[float, float],
    queries: Sequence[str],
    keys: Sequence[str],
) -> None:
    """Names the rows and columns of an image, without overlap.

    The font is smaller for more tokens. If even the smallest does not fit, only
    every second or third token is named.
    """
    width, height = inches
    _label(axes.set_xticks, keys, width, rotation=90)
    _label(axes.set_yticks, queries, height)


def _label(
    set_ticks: Callable, tokens: Sequence[str], inches: float, **style: Any
) -> None:
    """Labels one axis of this length."""
    points = _POINTS_AN_INCH * inches / max(len(tokens), 1) / _LINE_HEIGHT
    step = max(1, -int(-_SMALLEST_PRINT // points))
    set_ticks(
        range(0, len(tokens), step),
        tokens[::step],
        fontsize=min(_LARGEST_PRINT, step * points),
        # Dollar signs in a token would start a formula.
        parse_math=False,
        **style,
    )
