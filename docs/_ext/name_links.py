"""Public names in code font lead to their entries in the reference.

No page and no docstring needs a mark for it: a name such as `ra.Transformer`,
`Transformer` or `Translator.translate` is recognized wherever it stands alone
in code font.
"""

import functools
import re
from typing import Any

from api_reference import anchors
from api_reference import public_names
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import relative_attention as ra

_LOGGER = logging.getLogger(__name__)


@functools.cache
def entries() -> dict[str, tuple[str, str]]:
    """Returns page and anchor by what may be written.

    Names of one word that begin with a small letter are the field's words as
    well (`sample`, `train`): they need the prefix `ra.`.
    """
    found = {f"ra.{name}": at for name, at in anchors().items()}
    for name, public in public_names().items():
        # A method that a public class has from another public one.
        for base in getattr(public, "__mro__", ())[1:]:
            for method in vars(base):
                at = anchors().get(f"{base.__name__}.{method}")
                if at:
                    found.setdefault(f"ra.{name}.{method}", at)
    for name, at in list(found.items()):
        short = name.removeprefix("ra.")
        is_class = isinstance(public_names().get(short), type)
        if is_class or "_" in short or "." in short:
            found.setdefault(short, at)
    return found


class NameLinks(SphinxTransform):
    """Turns literals that are public names into references."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(
                literal.parent,
                nodes.reference | addnodes.pending_xref | nodes.title,
            ):
                continue
            written = literal.astext().removesuffix("()")
            name = written.replace("relative_attention.", "ra.", 1)
            if name not in entries():
                self._check(written, literal)
                name = name.removeprefix("ra.")
            if name not in entries():
                continue
            page, anchor = entries()[name]
            link = addnodes.pending_xref(
                "",
                literal.deepcopy(),
                reftype="myst",
                refdomain="doc",
                reftarget=f"docs/api/{page}",
                reftargetid=anchor,
                refexplicit=True,
                refdoc=self.env.docname,
            )
            literal.replace_self(link)

    @staticmethod
    def _check(written: str, literal: nodes.literal) -> None:
        """Warns of what is written as a public name and is none."""
        if re.fullmatch(r"ra(\.\w+)+", written):
            if written.split(".")[1] not in ra.__all__:
                _LOGGER.warning(
                    "`%s` is no public name", written, location=literal
                )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(NameLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
