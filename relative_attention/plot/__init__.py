"""Figures of what a model has learned, and a page to look inside a model.

Each `*_figure` returns a matplotlib `Figure`: in a notebook the last line of a
cell shows it, and `figure.savefig("name.png")` writes it. These need
`matplotlib`. `attention_view` makes a page for a browser, without it.
"""

from typing import TYPE_CHECKING

from relative_attention.lazy_names import lazy_names

# A server needs some of these where there is no Keras.
_MODULES = {
    "AttentionView": "attention_page",
    "attention_figure": "attention_figures",
    "attention_view": "attention_terms",
    "check_matplotlib": "figure",
    "content_security_policy": "attention_page",
    "curve_figure": "score_figures",
    "figure_png": "figure",
    "heads_figure": "attention_figures",
    "length_figure": "score_figures",
    "model_figure": "attention_figures",
    "model_picture": "attention_figures",
    "relation_figure": "attention_figures",
    "relation_tables": "attention_figures",
    "save_figure": "figure",
    "study_figure": "score_figures",
    "training_curve": "score_figures",
}
__all__ = [*_MODULES]

if TYPE_CHECKING:
    # What type checkers see of the names that `__getattr__` imports.
    from relative_attention.plot.attention_figures import (
        attention_figure as attention_figure,
    )
    from relative_attention.plot.attention_figures import (
        heads_figure as heads_figure,
    )
    from relative_attention.plot.attention_figures import (
        model_figure as model_figure,
    )
    from relative_attention.plot.attention_figures import (
        model_picture as model_picture,
    )
    from relative_attention.plot.attention_figures import (
        relation_figure as relation_figure,
    )
    from relative_attention.plot.attention_figures import (
        relation_tables as relation_tables,
    )
    from relative_attention.plot.attention_page import (
        AttentionView as AttentionView,
    )
    from relative_attention.plot.attention_page import (
        content_security_policy as content_security_policy,
    )
    from relative_attention.plot.attention_terms import (
        attention_view as attention_view,
    )
    from relative_attention.plot.figure import (
        check_matplotlib as check_matplotlib,
    )
    from relative_attention.plot.figure import figure_png as figure_png
    from relative_attention.plot.figure import save_figure as save_figure
    from relative_attention.plot.score_figures import (
        curve_figure as curve_figure,
    )
    from relative_attention.plot.score_figures import (
        length_figure as length_figure,
    )
    from relative_attention.plot.score_figures import (
        study_figure as study_figure,
    )
    from relative_attention.plot.score_figures import (
        training_curve as training_curve,
    )
else:
    __getattr__ = lazy_names(__name__, _MODULES)
