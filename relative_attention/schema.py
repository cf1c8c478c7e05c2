"""Sections of settings, with each key declared in one place.

A section is a frozen dataclass. The annotation of a field is the type of its
key, and `key` holds its default, bounds and choices, and whether it may change
when a run is resumed. `read_section` checks the values of a file against this,
and `check_fields` the arguments of a call. The reference of recipes
(`docs/guides/recipes.md`) is generated from it, and from the text below a
field or in the docstring.
"""

import dataclasses
import functools
import math
import numbers
import reprlib
import types
import typing
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from relative_attention.argument_checks import is_language
from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean

Section = TypeVar("Section")

_MOST = 2**31 - 1

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


@dataclasses.dataclass(frozen=True)
class Key:
    """The allowed values of a key, in addition to its type.

    Attributes:
        at_least: The smallest number, or `None`.
        at_most: The largest number, if there is a smallest one, or `None`.
        is_positive: Whether numbers must be above 0.
        is_fraction: Whether numbers must be in [0, 1).
        choices: The allowed strings, in addition to numbers if the type has
            those. Empty for any string.
        is_language: Whether strings must be codes of languages.
        may_change: Whether a run may be resumed with another value.
    """

    at_least: int | None = None
    at_most: int | None = None
    is_positive: bool = False
    is_fraction: bool = False
    choices: tuple[str, ...] = ()
    is_language: bool = False
    may_change: bool = False

    def problem(self, value: Any, types_: tuple[type, ...]) -> str | None:
        """Returns the rule that a value breaks, or `None`."""
        if value is None:
            return None
        if self.is_language and not is_language(value):
            return "must be the code of a language, such as `en`"
        if not isinstance(value, int | float):
            if "\0" in value:
                # No file has such a name.
                return "must not have a NUL (the character 0)"
            if not self.choices or value in self.choices:
                return None
            number = "a number or " if {int, float} & {*types_} else ""
            return f"must be {number}one of {', '.join(self.choices)}"
        if self.at_least is not None and value < self.at_least:
            return f"must be at least {self.at_least}"
        if self.at_most is not None and value > self.at_most:
            return f"must be at most {self.at_most:,}"
        if self.is_positive and value <= 0:
            return "must be positive"
        if self.is_fraction and not 0 <= value < 1:
            return "must be in [0, 1)"
        return None


def key(default: Any = dataclasses.MISSING, **rules: Any) -> Any:
    """Declares a field of a section; for `rules` see `Key`."""
    return dataclasses.field(default=default, metadata={"key": Key(**rules)})


def keys_of(cls: type) -> dict[str, Key]:
    """Returns the `Key` of each field of a section, by name."""
    return {
        field.name: field.metadata["key"]
        for field in dataclasses.fields(cls)
        if "key" in field.metadata
    }


_type_hints = functools.cache(typing.get_type_hints)


def types_of(cls: type, prefix: str, name: str) -> tuple[type, ...]:
    """Returns the types that a field of a dataclass may have.

    Args:
        cls: The dataclass.
        prefix: Text before the name in an error, such as `"data."`.
        name: The field.

    Raises:
        InputError: if there is no such field.
    """
    hints = _type_hints(cls)
    if name not in hints:
        raise InputError(unknown("key", str(name), list(hints), prefix))
    hint = hints[name]
    is_union = isinstance(hint, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def read_section(
    cls: type[Section], name: str, mapping: Mapping[str, Any]
) -> Section:
    """Makes the section `name` from the content of a file.

    Raises:
        InputError: if a key is unknown, or a value has the wrong type or is not
            allowed.
    """
    return cls(
        **{
            field: field_value(cls, f"{name}.", field, value)
            for field, value in mapping.items()
        }
    )


def field_value(cls: type, prefix: str, name: str, value: Any) -> Any:
    """Converts a value from YAML or JSON to the type of a field, and checks it.

    Args:
        cls: The dataclass, with the allowed types and the `Key` of the field.
        prefix: Text before the name in an error, such as `"data."`.
        name: The field.
        value: The value.

    Raises:
        InputError: if there is no such field, the value has the wrong type, or
            it is not allowed.
    """
    types_ = types_of(cls, prefix, name)
    if float in types_ and isinstance(value, str):
        # YAML reads 1e-3 as a string.
        try:
            value = float(value)
        except ValueError:
            pass
    value, problem = _checked(keys_of(cls).get(name, Key()), types_, value)
    if problem is None:
        return value
    hint = ""
    if str in types_ and not isinstance(value, str | list | dict):
        hint = " In YAML, put it in quotes."
    raise InputError(
        f"`{prefix}{name}` {problem}. Received: {_short.repr(value)}.{hint}"
    )


def check_fields(section: Any) -> None:
    """Checks the arguments of a new section, for `__post_init__`.

    Numbers of NumPy become Python's, as sections are written to files.

    Raises:
        ValueError: if a value has the wrong type or is not allowed.
    """
    cls = type(section)
    for name, rule in keys_of(cls).items():
        types_ = types_of(cls, "", name)
        value, problem = _checked(rule, types_, getattr(section, name))
        if problem is not None:
            problem = problem.replace("null", "None")
            raise ValueError(
                f"`{name}` {problem}. Received: {name}={_short.repr(value)}."
            )
        object.__setattr__(section, name, value)


def _checked(
    rule: Key, types_: tuple[type, ...], value: Any
) -> tuple[Any, str | None]:
    """Returns a value as one of the types, and the rule that it breaks."""
    # By name, as NumPy's bool is not a subclass of Python's.
    if type(value).__name__ in ("bool", "bool_"):
        value = bool(value)
        is_right = bool in types_
    else:
        if isinstance(value, numbers.Integral):
            value = int(value)
        if float in types_ and isinstance(value, numbers.Real):
            try:
                value = float(value)
            except OverflowError:
                return value, f"must be at most {_MOST:,}"
        is_right = isinstance(value, types_)
    if not is_right:
        names = ("null" if t is type(None) else t.__name__ for t in types_)
        return value, f"must be {' or '.join(names)}"
    if isinstance(value, float) and not math.isfinite(value):
        return value, "must be a finite number"
    if isinstance(value, int) and value > _MOST:
        return value, f"must be at most {_MOST:,}"
    return value, rule.problem(value, types_)


def check_mapping(value: Any, where: object) -> dict[str, Any]:
    """Returns `value` if it is a dict, and `{}` for nothing.

    Args:
        value: The content of a file.
        where: The name of its place, for the error.

    Raises:
        InputError: if it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(
            f"`{where}` must hold `key: value` lines. "
            f"Received: {_short.repr(value)}."
        )
    return value


def unknown(
    what: str, name: object, known: Sequence[str], prefix: str = ""
) -> str:
    """Returns the text of an error about a name that is not among `known`.

    The names are shown with `prefix`, but compared without it.
    """
    hint = did_you_mean(name, known, prefix)
    shown = _short.repr(f"{prefix}{name}" if prefix else name)
    names = ", ".join(prefix + one for one in known)
    return f"Unknown {what} {shown}.{hint} Known: {names}."
