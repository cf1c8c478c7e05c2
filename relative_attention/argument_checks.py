"""Checks of single arguments of public functions.

A `ValueError` names the argument, what is allowed and what was received. NumPy
numbers become Python numbers, so that a config can be saved as JSON.
"""

import math
import numbers
import operator
import re
from collections.abc import Callable
from typing import Any


def checked_int(
    name: str, value: Any, minimum: int | None = 1, allowed: str | None = None
) -> int:
    """Returns `value` as an int of at least `minimum`; bools are refused.

    Args:
        name: string. The argument, for the message.
        value: what was received; any type of integer.
        minimum: int. The smallest value allowed, or `None`.
        allowed: string. What the message says is allowed. Defaults to
            "a positive int" or the like.

    Raises:
        ValueError: if it is something else.
    """
    if allowed is None:
        allowed = f"an int of at least {minimum}"
        if minimum in (0, 1):
            allowed = ("a non-negative int", "a positive int")[minimum]
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or minimum is not None and number < minimum:
        raise _error(name, value, allowed)
    return number


def checked_at_least(name: str, value: Any, least: int) -> int:
    """Returns `value` as an int that is not below `least`."""
    number = checked_int(name, value, None, "an int")
    if number < least:
        raise _error(name, value, f"at least {least}")
    return number


def checked_number(
    name: str, value: Any, is_allowed: Callable[[float], bool], allowed: str
) -> float:
    """Returns `value` as a float for which `is_allowed`; nan is refused."""
    if not is_real(value) or math.isnan(value) or not is_allowed(value):
        raise _error(name, value, allowed)
    return float(value)


def checked_rate(name: str, value: Any) -> float:
    """Returns `value` as a float in `[0, 1)`."""
    return checked_number(
        name, value, lambda rate: 0 <= rate < 1, "a rate in [0, 1)"
    )


def checked_positive(
    name: str, value: Any, allowed: str = "> 0"
) -> int | float:
    """Returns `value` as an int or a float above 0."""
    if not is_real(value) or not value > 0:
        raise _error(name, value, allowed)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def checked_bool(name: str, value: Any) -> bool:
    """Returns `value` as a bool; strings and numbers are refused."""
    # By name, as NumPy's bool is not a subclass of Python's.
    if type(value).__name__ not in ("bool", "bool_"):
        raise _error(name, value, "True or False")
    return bool(value)


def is_language(value: Any) -> bool:
    """Returns whether a value has the form of an ISO 639 code."""
    return isinstance(value, str) and bool(re.fullmatch("[a-z]{2,3}", value))


def checked_sentences(name: str, value: Any) -> list[str]:
    """Returns `value` as a list of strings.

    Args:
        name: string. The argument, for the message.
        value: list, tuple or array of strings.

    Raises:
        TypeError: if it is something else, such as a single string, a generator
            or a tensor; or if an item is not a string.
        ValueError: if an item is not valid text: a surrogate has no UTF-8.
    """
    must = f"`{name}` must be a list of strings. Received: "
    if isinstance(value, str):
        raise TypeError(f"{must}a string; pass [{value!r}].")
    kind = type(value).__name__
    # For a tensor without rows, even the length is an error.
    if len(getattr(value, "shape", (1,))) != 1:
        raise TypeError(f"{must}{kind} of shape {tuple(value.shape)}.")
    if not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
        raise TypeError(f"{must}{kind}; pass list({name}).")
    if isinstance(value, dict | set | frozenset | bytes):
        raise TypeError(f"{must}{kind}.")
    sentences = list(value)
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise TypeError(
                f"{must}{kind} whose item {number} is of type "
                f"{type(sentence).__name__}."
            )
        try:
            sentence.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"`{name}` must hold text that UTF-8 can write. Received: in "
                f"item {number} the surrogate {sentence[error.start]!r} at "
                f"{error.start}. Read the text with `errors='replace'`."
            ) from error
    return sentences


def is_real(value: Any) -> bool:
    """Returns whether a value is a number, also of NumPy, but not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _error(name: str, value: Any, allowed: str) -> ValueError:
    return ValueError(
        f"`{name}` must be {allowed}. Received: {name}={value!r}."
    )
