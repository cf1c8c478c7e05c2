"""Signatures with the types as they are written.

Python gives what a type alias stands for, such as a union of seven types for
`InitializerLike`; the name says more.
"""

import ast
import inspect
import textwrap

from sphinx.application import Sphinx


def written_signature(function: object) -> tuple[str, str | None] | None:
    """Reads arguments and return type off the source of a function.

    Returns:
        Pair of `"(x: int = 0)"` and the return type, or `None` where there is
        no source.
    """
    try:
        source = inspect.getsource(inspect.unwrap(function))
    except (TypeError, OSError):
        return None
    definition = ast.parse(textwrap.dedent(source)).body[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    arguments = definition.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    returns = definition.returns and ast.unparse(definition.returns)
    return f"({ast.unparse(arguments)})", returns


def process(
    app: Sphinx,
    what: str,
    name: str,
    public: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Replaces what autodoc made of a signature."""
    if what == "class":
        written = written_signature(public.__init__)
        return written and (written[0], None)
    if what in ("function", "method"):
        return written_signature(public)
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
