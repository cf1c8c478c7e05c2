"""Draws what a model attends to, and what it has learnt of distance."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from relative_attention.decoding.translation import check_attention
from relative_attention.files import AnyPath
from relative_attention.plot.attention_figure import draw_alignment
from relative_attention.plot.figure import check_matplotlib
from relative_attention.plot.figure import make_figure
from relative_attention.plot.figure import save_figure
from relative_attention.plot.heads_figure import draw_heads
from relative_attention.plot.relation_figure import draw_relation_tables
from relative_attention.plot.sentence_pair import sentence_pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.figure import FigureBase

    from relative_attention.decoding import Translator

_MOST_HEADS = 4
# Sentences of more tokens get a larger picture, to a limit.
_FEW_TOKENS, _MOST_TOKENS = 28, 84


def model_picture(
    translator: "Translator", sentence: str, path: AnyPath
) -> str:
    """Writes what `model_figure` draws of the model's own translation.

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
    (translation,) = translator.translate([sentence])
    save_figure(model_figure(translator, sentence, translation), path)
    return translation


def model_figure(
    translator: "Translator", sentence: str, translation: str | None = None
) -> "Figure":
    """Draws the attention of one translation and the relation embeddings.

    Above: which source tokens the last decoder block looks at for each target
    token (mean over the heads), and the self-attention of the first encoder
    block, head by head. Below: the learned relation embeddings of that block
    by distance, w^K and w^V (Shaw et al. 2018, section 3.2), where it has
    them.

    Args:
        translator: `Translator`.
        sentence: string. The sentence that is translated.
        translation: string. Its translation. Defaults to `None`, the one that
            `translator` finds.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed, or the model is an
            `Ensemble`, which has no attention of its own.
    """
    check_matplotlib()
    check_attention(translator.model)
    pair, _ = sentence_pair(translator, sentence, translation)
    source, target = pair.source, pair.target
    scores = translator.model.attention_scores(pair.inputs)
    num_tokens = min(max(len(source), len(target)), _MOST_TOKENS)
    scale = max(1, num_tokens / _FEW_TOKENS)
    # In inches: attention takes (13, 6) times the scale, relations (13, 4).
    figure = make_figure((13 * scale, 6 * scale + 4))
    parts: Any = figure.subfigures(2, 1, height_ratios=(6 * scale, 4))
    top, bottom = parts
    left, right = top.subfigures(1, 2)
    cross = np.asarray(scores["cross"][-1])[0]
    axes = left.subplots()
    inches = (6.5 * scale - 2, 6 * scale - 1.5)
    image = draw_alignment(axes, cross, source, target, inches)
    left.colorbar(image, ax=axes, label="attention score")
    _draw_first_block(right, np.asarray(scores["encoder"][0])[0], source, scale)
    _draw_relations(bottom, translator.model.encoder_blocks[0].self_attention)
    return figure


def _draw_first_block(
    figure: "FigureBase",
    scores: np.ndarray,
    tokens: Sequence[str],
    scale: float,
) -> None:
    """Draws some heads of scores `(N, S, S)`, two in a row."""
    figure.suptitle("Self-attention, first encoder block")
    heads = scores[:_MOST_HEADS]
    columns = min(len(heads), 2)
    rows = -(-len(heads) // columns)
    inches = ((6.5 * scale - 1) / columns - 1, (6 * scale - 0.5) / rows - 1.1)
    draw_heads(figure, heads, tokens, tokens, columns, inches)


def _draw_relations(figure: "FigureBase", layer: Any) -> None:
    """Draws the relation tables of a layer, or says that it has no tables."""
    tables = {
        "w$^K$, added to keys": layer.key_relation_embeddings,
        "w$^V$, added to values": layer.value_relation_embeddings,
    }
    tables = {k: np.asarray(v) for k, v in tables.items() if v is not None}
    if not tables:
        figure.suptitle("No relation embeddings: positions are absolute")
        return
    figure.suptitle(
        "Relation embeddings by distance (key position - query position), "
        "first encoder block"
    )
    for axes, (title, table) in zip(
        figure.subplots(1, len(tables), squeeze=False).flat, tables.items()
    ):
        # Tables of their own for each head are shown one under the other.
        by_head = table if table.ndim == 3 else table[None]
        image = draw_relation_tables(axes, [by_head])
        axes.set_title(title)
        axes.set_ylabel("dimension")
        figure.colorbar(image, ax=axes)
