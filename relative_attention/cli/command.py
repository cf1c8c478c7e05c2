"""Adds commands to the command line."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

# At run time the class of argparse takes no parameter.
if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Subparsers: TypeAlias = Any


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    example: str,
) -> argparse.ArgumentParser:
    """Returns a parser for the command `name`, which calls `run(options)`."""
    parser = subparsers.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_model_directory(parser: argparse.ArgumentParser) -> None:
    """Adds the first argument of commands that need a trained model."""
    parser.add_argument(
        "model_directory",
        metavar="MODEL",
        help="the folder that `train` filled, or the name of a trained model "
        "of the zoo (`relative-attention list`)",
    )
