"""Arguments that a function of the package takes, checked by name."""

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any


def check_integer(
    name: str, value: Any, least: int | None = None, allowed: str | None = None
) -> int:
    """An argument as an int; NumPy's integers are taken too.

    Args:
        name: string. Of the argument.
        value: what was given.
        least: int. Defaults to `None`, no limit.
        allowed: string. What it must be, for the error. Defaults to
            `"be at least"` the least.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is less than `least`.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(
            f"`{name}` must be an int. Received: {name}={value!r}."
        ) from error
    if least is not None and number < least:
        raise ValueError(
            f"`{name}` must {allowed or f'be at least {least}'}. "
            f"Received: {name}={number}."
        )
    return number


def check_number(
    name: str, value: Any, is_allowed: Callable[[float], bool], allowed: str
) -> float:
    """An argument as a float.

    Args:
        is_allowed: function of the float to a bool; nan is never allowed.
        allowed: string. What is allowed, for the error.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is not allowed.
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(
            f"`{name}` must be a number {allowed}. Received: {name}={value!r}."
        )
    number = float(value)
    if math.isnan(number) or not is_allowed(number):
        raise ValueError(
            f"`{name}` must be {allowed}. Received: {name}={value}."
        )
    return number


def check_sentences(name: str, value: Any) -> list[str]:
    """An argument as a list of strings.

    Args:
        name: string. Of the argument.
        value: list, tuple or array of strings.

    Raises:
        TypeError: if it is something else: a single string, a generator or a
            tensor, of which a list is easily made; or if an item is no
            string.
        ValueError: if an item is no text: a surrogate has no UTF-8.
    """
    must = f"`{name}` must be a list of strings. Received: "
    if isinstance(value, str):
        raise TypeError(f"{must}a string; pass [{value!r}].")
    kind = type(value).__name__
    # Of a tensor without rows even the length is an error.
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
