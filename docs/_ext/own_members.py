"""What the entry of a class shows: its own arguments and members.

Members of Keras are described there, and members of a public class at its own
entry.
"""

import functools
import inspect

from sphinx.application import Sphinx
from sphinx.util.inspect import signature as read_signature
from sphinx.util.inspect import stringify_signature

import relative_attention as ra


def owner_of(member: object) -> str | None:
    """Returns the class of this package that has the code of a member.

    Returns:
        Name of the class, or `None` where another package has it.
    """
    function = getattr(member, "__func__", member)
    if isinstance(member, property):
        function = member.fget
    elif isinstance(member, functools.cached_property):
        function = member.func
    function = inspect.unwrap(function)
    module = str(getattr(function, "__module__", ""))
    # The value of a field has no name of its own.
    if module.startswith(ra.__name__) and hasattr(function, "__qualname__"):
        return function.__qualname__.partition(".")[0]
    return None


def skip(
    app: Sphinx,
    what: str,
    name: str,
    member: object,
    is_skipped: bool,
    options: object,
) -> bool | None:
    """Says whether to leave out a member, `None` for what autodoc says."""
    if what != "class":
        return None
    owner = owner_of(member)
    documented = app.env.current_document.autodoc_class
    is_elsewhere = owner in ra.__all__ and owner != documented
    return True if owner is None or is_elsewhere else None


def own_arguments(
    app: Sphinx,
    what: str,
    name: str,
    member: type,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Takes arguments from `__init__`, which Keras hides by its `__new__`."""
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    own = read_signature(member.__init__, bound_method=True)
    arguments = own.replace(return_annotation=own.empty)
    return stringify_signature(arguments, unqualified_typehints=True), returns


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", own_arguments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
