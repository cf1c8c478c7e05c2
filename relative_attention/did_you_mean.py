"""Suggestions of the nearest known name, for messages about unknown ones."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns a question that suggests the known name nearest to `name`.

    Args:
        name: string, or anything else given in place of a known name.
        known: iterable of strings. The known names.

    Returns:
        A sentence with a blank before it, to be put behind another sentence,
        or `""` if no known name is near.

    Example:
    >>> did_you_mean("transformer_bge", ["transformer_base", "transformer_big"])
    " Did you mean 'transformer_big'?"
    """
    nearest = nearest_name(name, known)
    return "" if nearest is None else f" Did you mean {nearest!r}?"


def nearest_name(name: object, known: Iterable[str]) -> str | None:
    """Returns the known name nearest to `name`, or `None` if none is near."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return close[0] if close else None
