"""Reads YAML, of which the package has one reader.

A file may come from anywhere, so aliases and merge keys are refused: with them,
nine lines may stand for more than any memory holds. Without them, the content
of a file is no larger than its text.
"""

import pathlib
import re
from typing import Any

import yaml

from relative_attention.errors import InputError
from relative_attention.schema import check_mapping


def read_yaml_file(path: pathlib.Path, what: str) -> dict[str, Any]:
    """Returns the keys and values of a file; `what` it is, for an error.

    Raises:
        InputError: if it cannot be read, or is not YAML or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"No {what} at {path}: {error}.") from error
    return check_mapping(read_yaml(text, str(path)), path)


def read_yaml(text: str, what: str) -> Any:
    """Returns the content of a text; `what` it is, for an error.

    Raises:
        InputError: if it is not YAML, or has an alias or a key twice.
    """
    try:
        return yaml.load(text, _Loader)
    # Besides its own errors, PyYAML raises errors of impossible dates and
    # numbers, and of tags on values of other kinds.
    except Exception as error:
        problem = " ".join(str(error).split())
        if isinstance(error, RecursionError):
            problem = "nested too deeply"
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
            # Without the lines that PyYAML adds.
            mark = error.problem_mark
            where = f"(line {mark.line + 1}, column {mark.column + 1})"
            problem = f"{error.problem} {where}"
        raise InputError(f"{what} is not YAML: {problem}.") from error


class _Loader(yaml.SafeLoader):
    """Refuses aliases and duplicate keys, and reads numbers as decimal.

    PyYAML silently uses the last of duplicate keys.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise _wrong(
                f"the alias *{event.anchor} must be written out",
                event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        # In YAML 1.1, 010 is 8 and 1:30 is 90.
        if re.fullmatch(r"[-+]?0[0-9_]+|.*:.*", node.value):
            return node.value
        if node.tag.endswith("int"):
            return self.construct_yaml_int(node)
        return self.construct_yaml_float(node)

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        names = set()
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.tag == "tag:yaml.org,2002:merge":
                    raise _wrong("`<<` must be written out", key.start_mark)
                if key.value in names:
                    raise _wrong(
                        f"{key.value!r} is there twice", key.start_mark
                    )
                names.add(key.value)
        return super().construct_mapping(node, deep)


def _wrong(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)


for _kind in ("int", "float"):
    _Loader.add_constructor(
        f"tag:yaml.org,2002:{_kind}", _Loader.construct_number
    )
