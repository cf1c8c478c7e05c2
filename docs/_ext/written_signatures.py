"""Signatures with the types as they are written.

Python gives what a type alias stands for, such as a union of seven types for
`InitializerLike`; the name says more.
"""

import ast
import dataclasses
import inspect
import textwrap

from sphinx.application import Sphinx


def written_signature(public: object) -> tuple[str, str | None] | None:
    """Reads arguments and return type off the source.

    Args:
        public: a function, method or class.

    Returns:
        Pair of `"(x: int = 0)"` and the return type, or `None` where there is
        no source.
    """
    if dataclasses.is_dataclass(public):
        return _fields(public), None
    is_class = inspect.isclass(public)
    function = public.__init__ if is_class else inspect.unwrap(public)
    definition = _parsed(function)
    if not isinstance(definition, ast.FunctionDef):
        return None
    arguments = definition.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    for argument in arguments.args:
        argument.annotation = _unquoted(argument.annotation)
    returns = definition.returns and ast.unparse(_unquoted(definition.returns))
    return f"({ast.unparse(arguments)})", None if is_class else returns


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """Returns a type that is written as a string, as it is inside itself."""
    if isinstance(annotation, ast.Constant) and annotation.value:
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _parsed(public: object) -> ast.stmt | None:
    try:
        source = inspect.getsource(public)
    except (TypeError, OSError):
        return None
    return ast.parse(textwrap.dedent(source)).body[0]


def _fields(cls: type) -> str:
    """Returns the arguments of a dataclass, those that it inherits first."""
    arguments = {}
    for base in reversed(cls.__mro__):
        definition = _parsed(base)
        for line in definition.body if definition else []:
            if isinstance(line, ast.AnnAssign):
                name = ast.unparse(line.target)
                default = "" if line.value is None else f" = {_value(line)}"
                arguments[name] = f"{ast.unparse(line.annotation)}{default}"
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    return f"({', '.join(f'{name}: {arguments[name]}' for name in names)})"


def _value(line: ast.AnnAssign) -> str:
    # A call says how a default is made, and checked, not what it is.
    return (
        "..." if isinstance(line.value, ast.Call) else ast.unparse(line.value)
    )


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
    if what in ("class", "function", "method"):
        return written_signature(public)
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
