"""Pictures of what a model has learnt; they need `matplotlib`."""

from relative_attention.plot.attention_figure import attention_figure
from relative_attention.plot.figure import figure_png
from relative_attention.plot.model_picture import model_picture
from relative_attention.plot.relation_figure import relation_figure
from relative_attention.plot.training_curve import curve_figure
from relative_attention.plot.training_curve import training_curve

__all__ = [
    "attention_figure",
    "curve_figure",
    "figure_png",
    "model_picture",
    "relation_figure",
    "training_curve",
]
