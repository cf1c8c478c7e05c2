"""How validation went, step by step."""

from relative_attention.plot.figure import make_figure
from relative_attention.plot.figure import save_figure


def training_curve(curve, path):
    """Draw validation loss and BLEU against steps.

    Args:
        curve: list of dicts with `"step"`, `"val_loss"` and, in some,
            `"val_bleu"`: the `curve` of a `results.json`.
        path: path of the PNG file to write.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    figure = make_figure((8, 4))
    loss_axes = figure.subplots()
    loss_axes.set_xlabel("step")
    _draw(loss_axes, curve, "val_loss", "validation loss", "tab:blue")
    if any("val_bleu" in epoch for epoch in curve):
        bleu_axes = loss_axes.twinx()
        _draw(bleu_axes, curve, "val_bleu", "validation BLEU", "tab:orange")
        bleu_axes.set_ylim(bottom=0)
    save_figure(figure, path)


def _draw(axes, curve, key, label, color):
    points = [(e["step"], e[key]) for e in curve if key in e]
    axes.plot(*zip(*points), color=color, marker=".")
    axes.set_ylabel(label, color=color)
