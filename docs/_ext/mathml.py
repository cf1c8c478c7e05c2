"""Equations as MathML, which browsers draw without a script.

LaTeX becomes MathML when the site is built, so nothing is loaded from
elsewhere, and a page can be read before it is whole.
"""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Writes an equation, with its number and what a link leads to if any."""
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(convert(node.astext(), display="block"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({node["number"]})</span>')
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_inline, None),
        block_renderers=(visit_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
