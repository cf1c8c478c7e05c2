"""Values of a recipe: read from YAML, checked against their fields."""

import math
import reprlib
import types
import typing

import yaml

from relative_attention.did_you_mean import did_you_mean
from relative_attention.errors import InputError

# What YAML says for nothing.
_NULLS = ("", "~", "null", "Null", "NULL")
_MOST = 2**31 - 1

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def read_yaml(text, what):
    """What a text in YAML holds.

    Args:
        text: string.
        what: string. What to call the text in an error.

    Raises:
        InputError: if it is not YAML, or a key stands twice.
    """
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise InputError(f"{what} is not YAML: nested too deeply.") from error
    except (
        yaml.YAMLError,
        # Dates and numbers that are none, and tags on values of other kinds.
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
    ) as error:
        raise InputError(f"{what} is not YAML: {_one_line(error)}.") from error


def _one_line(error):
    """What is wrong and where, without the lines of the text that YAML adds."""
    problem, mark = (
        getattr(error, name, None) for name in ("problem", "problem_mark")
    )
    if problem and mark:
        return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())


class _Loader(yaml.SafeLoader):
    """PyYAML takes the last of equal keys, and says nothing."""

    def construct_mapping(self, node, deep=False):
        names = set()
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                    continue
                if key.value in names:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"{key.value!r} is there twice",
                        key.start_mark,
                    )
                names.add(key.value)
        return super().construct_mapping(node, deep)


def read_assignment(cls, prefix, key, text):
    """The value that a command line gives to a field of a dataclass.

    It is written as in YAML; but what can only be a string, such as the name
    of a file, is taken as it stands, unless it is in quotes or null.

    Args:
        cls: the dataclass.
        prefix: string. What stands before the key, `"data."`.
        key: string. The field.
        text: string.

    Raises:
        InputError: if there is no such field, or `text` is not YAML.
    """
    allowed = _allowed(cls, prefix, key)
    if set(allowed) <= {str, types.NoneType}:
        if text in _NULLS:
            return None
        if text[0] not in "'\"":
            return text
    return read_yaml(
        text, f"The value of `{prefix}{key}`, {_short.repr(text)},"
    )


def field_value(cls, prefix, key, value):
    """`value` for the field `key` of a dataclass, if it is of its type.

    Args:
        cls: the dataclass; its annotations say what is allowed.
        prefix: string. What stands before the key in an error, `"data."`.
        key: the field.
        value: what YAML gave.

    Raises:
        InputError: if there is no such field, or the value is of another
            type, or a number that is not finite or too large for any use.
    """
    allowed = _allowed(cls, prefix, key)
    is_bool = isinstance(value, bool)
    if float in allowed and isinstance(value, (int, str)) and not is_bool:
        # YAML reads 1e-3 as a string, and whole numbers as such.
        try:
            value = float(value)
        except (ValueError, OverflowError):
            pass
    if not isinstance(value, allowed) or (is_bool and bool not in allowed):
        names = " or ".join(
            "null" if t is type(None) else t.__name__ for t in allowed
        )
        quotes = ""
        if str in allowed and not isinstance(value, (list, dict)):
            quotes = " In YAML, put it in quotes."
        raise InputError(
            f"`{prefix}{key}` must be {names}. "
            f"Received: {_short.repr(value)}.{quotes}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            f"`{prefix}{key}` must be a finite number. Received: {value}."
        )
    if isinstance(value, int) and value > _MOST:
        raise InputError(
            f"`{prefix}{key}` must be at most {_MOST:,}. "
            f"Received: {_short.repr(value)}."
        )
    return value


def check_mapping(value, where):
    """`value`, if it is a dict; `{}` for nothing."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(
            f"`{where}` must hold `key: value` lines. "
            f"Received: {_short.repr(value)}."
        )
    return value


def unknown(what, name, known):
    """The text of an error about a name that is none of `known`."""
    return (
        f"Unknown {what} {_short.repr(name)}.{did_you_mean(name, known)} "
        f"Known: {', '.join(known)}."
    )


def _allowed(cls, prefix, key):
    """The types that a field may have."""
    hints = typing.get_type_hints(cls)
    if key not in hints:
        raise InputError(
            unknown("key", f"{prefix}{key}", [prefix + name for name in hints])
        )
    hint = hints[key]
    if isinstance(hint, types.UnionType):
        return typing.get_args(hint)
    return (hint,)
