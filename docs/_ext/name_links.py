"""Public names in code font lead to their entries in the reference.

No page and no docstring needs a mark for it: a name such as `ra.Transformer`,
`Transformer` or `Translator.translate` is recognized wherever it stands alone
in code font.
"""

import functools
import inspect
import re
from typing import Any

from docutils import nodes
from own_members import owner_of
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import relative_attention as ra

_LOGGER = logging.getLogger(__name__)


@functools.cache
def entries() -> dict[str, tuple[str, str]]:
    """Returns kind and full name of what may be written, by what is written.

    Names of one word that begin with a small letter are the field's words as
    well (`sample`, `train`): they need the prefix `ra.`.
    """
    found = {}
    for name in ra.__all__:
        public = getattr(ra, name)
        if inspect.ismodule(public):
            for member in public.__all__:
                full = f"ra.{name}.{member}"
                found[full] = (_kind(getattr(public, member)), full)
        elif not name.startswith("__"):
            found[f"ra.{name}"] = (_kind(public), f"ra.{name}")
            if inspect.isclass(public):
                found[name] = found[f"ra.{name}"]
                found |= _methods(name, public)
            elif "_" in name:
                found[name] = found[f"ra.{name}"]
    return {
        written: (kind, full.replace("ra.", "relative_attention.", 1))
        for written, (kind, full) in found.items()
    }


def _kind(public: object) -> str:
    return "class" if inspect.isclass(public) else "func"


def _methods(name: str, public: type) -> dict[str, tuple[str, str]]:
    methods = {}
    for method, member in inspect.getmembers(public, inspect.isroutine):
        owner = owner_of(member)
        # A method without a docstring has no entry.
        if owner and not method.startswith("_") and member.__doc__:
            at = owner if owner in ra.__all__ else name
            methods[f"{name}.{method}"] = ("meth", f"ra.{at}.{method}")
    return methods


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
            kind, full = entries()[name]
            link = addnodes.pending_xref(
                "",
                literal.deepcopy(),
                refdomain="py",
                reftype=kind,
                reftarget=full,
                refexplicit=True,
                refwarn=True,
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
