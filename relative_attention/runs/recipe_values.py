"""Reads the values of a recipe from YAML."""

import reprlib
import types
from typing import Any

import yaml

from relative_attention.errors import InputError
from relative_attention.settings import types_of

# What YAML says for nothing.
_NULLS = ("", "~", "null", "Null", "NULL")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def read_yaml(text: str, what: str) -> Any:
    """Returns what a text in YAML holds.

    Args:
        text: A string.
        what: A string, what to call the text in an error.

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


def _one_line(error: Exception) -> str:
    """Says what is wrong and where, without the lines that YAML adds."""
    problem, mark = (
        getattr(error, name, None) for name in ("problem", "problem_mark")
    )
    if problem and mark:
        return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())


class _Loader(yaml.SafeLoader):
    """Refuses equal keys, of which PyYAML takes the last without a word."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
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


def read_assignment(cls: type, prefix: str, key: str, text: str) -> Any:
    """Returns the value that a command line gives to a field.

    It is written as in YAML; but what can only be a string, such as the name
    of a file, is taken as it stands, unless it is in quotes or null.

    Args:
        cls: The dataclass that has the field.
        prefix: A string, what stands before the key, `"data."`.
        key: A string, the field.
        text: A string.

    Raises:
        InputError: if there is no such field, or `text` is not YAML.
    """
    allowed = types_of(cls, prefix, key)
    if set(allowed) <= {str, types.NoneType}:
        if text in _NULLS:
            return None
        if text[0] not in "'\"":
            return text
    return read_yaml(
        text, f"The value of `{prefix}{key}`, {_short.repr(text)},"
    )
