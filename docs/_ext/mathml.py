"""Equations as MathML, which browsers draw themselves.

LaTeX becomes MathML when the site is built, so that no script is needed and
nothing is loaded from elsewhere. A command that is not known is a warning.
"""

import html
import re

from docutils import nodes
from math_core import LatexError
from math_core import LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOGGER = logging.getLogger(__name__)
_CONVERTER = LatexToMathML(annotation=True, fancy_error=False)
# A number that the page gives; the converter knows it in `align` alone.
_TAG = re.compile(r"\\tag\{([^}]*)\}")


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_mathml(node, node.astext(), displaystyle=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Writes an equation, with its number where it has one."""
    latex = node.astext()
    number = _TAG.search(latex)
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(_mathml(node, _TAG.sub("", latex), displaystyle=True))
    if number:
        self.body.append(f'<span class="eqno">({number[1]})</span>')
    self.body.append("</div>")
    raise nodes.SkipNode


def _mathml(node: nodes.Element, latex: str, displaystyle: bool) -> str:
    try:
        return _CONVERTER.convert_with_local_state(
            latex, displaystyle=displaystyle
        )
    except LatexError as error:
        _LOGGER.warning("%s", error, location=node)
        return html.escape(latex)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_inline, None),
        block_renderers=(visit_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
