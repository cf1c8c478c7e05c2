"""Figures of what a model has learned, and a page to look inside a model.

Each `*_figure` returns a matplotlib `Figure`: in a notebook the last line of a
cell shows it, and `figure.savefig("name.png")` writes it. These need
`matplotlib`. `attention_view` makes a page for a browser, without it.
"""

from relative_attention.plot.attention_figures import attention_figure
from relative_attention.plot.attention_figures import heads_figure
from relative_attention.plot.attention_figures import model_figure
from relative_attention.plot.attention_figures import model_picture
from relative_attention.plot.attention_figures import relation_figure
from relative_attention.plot.attention_figures import relation_tables
from relative_attention.plot.attention_view import AttentionView
from relative_attention.plot.attention_view import attention_view
from relative_attention.plot.attention_view import content_security_policy
from relative_attention.plot.figure import check_matplotlib
from relative_attention.plot.figure import figure_png
from relative_attention.plot.figure import save_figure
from relative_attention.plot.score_figures import curve_figure
from relative_attention.plot.score_figures import length_figure
from relative_attention.plot.score_figures import study_figure
from relative_attention.plot.score_figures import training_curve

__all__ = [
    "AttentionView",
    "attention_figure",
    "attention_view",
    "check_matplotlib",
    "content_security_policy",
    "curve_figure",
    "figure_png",
    "heads_figure",
    "length_figure",
    "model_figure",
    "model_picture",
    "relation_figure",
    "relation_tables",
    "save_figure",
    "study_figure",
    "training_curve",
]
