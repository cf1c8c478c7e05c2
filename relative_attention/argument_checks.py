"""Numbers and switches that a caller gives, checked and made plain.

NumPy's numbers are taken as Python's, so that a config holds what JSON can.
"""

import numbers
import operator


def checked_int(name, value, minimum=1, allowed=None):
    """`value` as an int.

    Args:
        name: string. The argument, for the message.
        value: what was received; anything that Python can count with.
        minimum: int. The smallest value allowed. Defaults to `1`.
        allowed: string. What the message says is allowed. Defaults to
            "a positive int" or the like.

    Raises:
        ValueError: if it is no integer, a bool, or too small.
    """
    if allowed is None:
        allowed = {0: "a non-negative int", 1: "a positive int"}.get(
            minimum, f"an int of at least {minimum}"
        )
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or minimum is not None and number < minimum:
        raise _error(name, value, allowed)
    return number


def checked_rate(name, value):
    """`value` as a float in `[0, 1)`.

    Raises:
        ValueError: if it is no number, a bool, or outside.
    """
    if not is_real(value) or not 0 <= value < 1:
        raise _error(name, value, "a rate in [0, 1)")
    return float(value)


def checked_positive(name, value, allowed="> 0"):
    """`value` as an int or a float over 0.

    Raises:
        ValueError: if it is no number, a bool, or not over 0.
    """
    if not is_real(value) or not value > 0:
        raise _error(name, value, allowed)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def checked_bool(name, value):
    """`value` as a bool; no word or number stands for one.

    Raises:
        ValueError: if it is anything else.
    """
    # NumPy's bool is no subclass of Python's, and is known by its name.
    if not isinstance(value, bool) and type(value).__name__ not in (
        "bool",
        "bool_",
    ):
        raise _error(name, value, "True or False")
    return bool(value)


def is_real(value):
    """Whether a value is a number, be it NumPy's, and no bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _error(name, value, allowed):
    return ValueError(
        f"`{name}` must be {allowed}. Received: {name}={value!r}."
    )
