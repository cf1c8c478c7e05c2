"""Writes the reference of commands, `docs/guides/commands.md`.

    python docs/command_reference.py

It is made of the parsers that `--help` is made of. A test compares the page
with what this prints.
"""

import argparse
import pathlib
import re
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from relative_attention.cli.command import Command
from relative_attention.cli.main import _COMMANDS

PAGE = pathlib.Path(__file__).parent / "guides" / "commands.md"

_HEAD = """\
<!-- Written by `python docs/command_reference.py`; change it there. -->

# All commands

`relative-attention COMMAND --help` prints the same on the command line, and
`relative-attention --version` the version.

- `MODEL` is a folder that `train` filled, or the name of a bundled model
  (`relative-attention list`). A folder of that name with a model takes
  precedence.
- `section.key=value` replaces a value of the recipe: [all keys](recipes.md).
- Results go to standard output, errors and warnings to standard error.
- Exit status: 0 for success, 1 for an error (one line on standard error says
  what is wrong; none if the reader of the output has gone), 2 for a wrong
  command line, 130 after Ctrl-C.
"""


def reference() -> str:
    """Returns the page as Markdown."""
    commands = argparse.ArgumentParser(
        prog="relative-attention"
    ).add_subparsers(parser_class=Command)
    for add_command in _COMMANDS:
        add_command(commands)
    return "\n".join([_HEAD, *_sections(commands, "##", "")])


def _sections(commands: Any, level: str, prefix: str) -> Iterator[str]:
    """Yields the parts of the page about some commands."""
    for name, parser in commands.choices.items():
        yield f"{level} `{prefix}{name}`\n"
        yield from _command(parser)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from _sections(action, f"{level}#", f"{name} ")


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields what a command does, its usage, examples and arguments."""
    actions = parser._actions[1:]  # The first is --help.
    yield f"{_text(parser.description or '')}\n"
    yield _block(parser.usage or _usage(parser, actions))
    _, _, examples = (parser.epilog or "").partition("example:\n")
    if examples:
        yield f"For example:\n\n{_block(examples)}"
    rows = [
        f"| `{_left(action)}` | {_meaning(parser, action)} |\n"
        for action in actions
        if not isinstance(action, argparse._SubParsersAction)
    ]
    if rows:
        yield "".join(["| argument | meaning |\n", "| --- | --- |\n", *rows])


def _block(lines: str) -> str:
    return "".join(f"    {line.strip()}\n" for line in lines.splitlines())


def _usage(
    parser: argparse.ArgumentParser, actions: Sequence[argparse.Action]
) -> str:
    """Returns the usage, with what may be left out as `[options]`."""
    options = [action for action in actions if action.option_strings]
    words = [_left(action) for action in options if action.required]
    if len(words) < len(options):
        words.insert(0, "[options]")
    for action in actions:
        if not action.option_strings:
            words.append(_typed(action))
    return " ".join([parser.prog, *words])


def _left(action: argparse.Action) -> str:
    """Returns an option as it is typed, or the name of an argument."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return "`, `".join(action.option_strings)
    if action.option_strings:
        return f"{action.option_strings[0]} {_typed(action)}".strip()
    return _value(action)


def _typed(action: argparse.Action) -> str:
    """Returns the values of an argument, such as `T [T ...]`."""
    value = _value(action)
    if isinstance(action.nargs, int):
        return " ".join([value] * action.nargs)
    forms = {
        "?": f"[{value}]",
        "*": f"[{value} ...]",
        "+": f"{value} [{value} ...]",
        argparse.PARSER: f"{value} ...",
    }
    return forms.get(action.nargs or "", value)


def _value(action: argparse.Action) -> str:
    if action.metavar:
        return str(action.metavar)
    if action.choices:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Returns what `--help` says of an argument."""
    if action.help is None:
        return ""
    return _text(parser._get_formatter()._expand_help(action))


def _text(text: str) -> str:
    """Escapes what Markdown would read as mathematics, emphasis or a cell."""
    return re.sub(r"([$*|])", r"\\\1", text)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    print(PAGE)
