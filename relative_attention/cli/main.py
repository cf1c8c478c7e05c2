"""Reads the command line.

A command is a file beside this one, with no logic: it imports the package
when it runs, so that `--help` answers at once.
"""

import argparse
import os
import re
import sys
from collections.abc import Mapping
from collections.abc import Sequence

from relative_attention.cli import average
from relative_attention.cli import benchmark
from relative_attention.cli import convert
from relative_attention.cli import data
from relative_attention.cli import demo
from relative_attention.cli import distill
from relative_attention.cli import evaluate
from relative_attention.cli import export
from relative_attention.cli import list_models
from relative_attention.cli import plot
from relative_attention.cli import score
from relative_attention.cli import serve
from relative_attention.cli import study
from relative_attention.cli import train
from relative_attention.cli import translate
from relative_attention.cli.keras_backend import check_keras_backend
from relative_attention.cli.standard_streams import replace_closed_error_output
from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.version import __version__

# `--help` lists the commands in this order.
_COMMANDS = (
    demo,
    data,
    train,
    study,
    distill,
    average,
    translate,
    score,
    evaluate,
    plot,
    export,
    serve,
    convert,
    benchmark,
    list_models,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: list of strings. Defaults to `None`, those of the process.

    Returns:
        0 when all is done; 1 when something given is wrong, and a line on
        standard error says what; 130 when interrupted.
    """
    replace_closed_error_output()
    options = parse(arguments)
    try:
        if getattr(options, "needs_keras", _always)(options):
            check_keras_backend()
            load_tensorflow_quietly()
        options.run(options)
    except InputError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("relative_attention"):
            raise
        return _fail(
            f"This needs the package {error.name}, which is not installed."
        )
    except BrokenPipeError:
        # Whoever read has seen enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error}. Nothing that was complete has been lost.")
    except KeyboardInterrupt:
        hint = ""
        if options.command == "train":
            folder = options.output or "DIR"
            hint = f" Go on with `relative-attention train --resume {folder}`."
        elif options.command in ("distill", "study") or (
            options.command == "translate" and options.input and options.output
        ):
            hint = " The same command goes on."
            if getattr(options, "overwrite", False):
                hint = " The same command goes on, without --overwrite."
        print(f"\nInterrupted.{hint}", file=sys.stderr)
        return 130
    return 0


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses what a command line asks for.

    Args:
        arguments: list of strings. Defaults to `None`, those of the process.

    Returns:
        `argparse.Namespace`; its `run` runs the command.

    Raises:
        SystemExit: if an argument is wrong, or `--help` is asked for.
    """
    parser, parsers = _parser()
    options, rest = parser.parse_known_args(arguments)
    # argparse takes a list of positional arguments in one piece only; here
    # options may stand between the recipe and what overrides it.
    settle = getattr(options, "settle", None)
    if rest and (
        settle is None or any(argument.startswith("-") for argument in rest)
    ):
        _refuse(rest, parsers[options.command])
    if settle is not None:
        settle(options, [*options.words, *rest], parser.error)
    return options


def _always(options: argparse.Namespace) -> bool:
    """Returns `True`: most commands need Keras."""
    return True


def _fail(message: str) -> int:
    """Prints one line on standard error, and returns the exit status 1."""
    # A message may quote a file of a stranger, whose names could hold what a
    # terminal obeys.
    shown = "".join(
        letter if letter.isprintable() else repr(letter)[1:-1]
        for letter in message
    )
    print(f"relative-attention: {shown}", file=sys.stderr)
    return 1


def _refuse(arguments: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Ends with what a command does not know, and what it does."""
    known = re.findall(r"--[\w-]+", parser.format_help())
    suggestion = did_you_mean(arguments[0].partition("=")[0], known)
    parser.error(
        f"unrecognized arguments: {' '.join(arguments)}.{suggestion} "
        f"`{parser.prog} --help` lists all."
    )


def _parser() -> tuple[
    argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]
]:
    """Returns the parser of all commands, and those of each by its name."""
    parser = argparse.ArgumentParser(
        prog="relative-attention",
        description="Translation models with relative position "
        "representations.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser, subparsers.choices
