"""Adds commands to the command line."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import NoReturn
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


def add_data_folder(parser: argparse.ArgumentParser) -> None:
    """Adds the option of commands that train by a recipe."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where the recipe's text files are "
        "(default: $RELATIVE_ATTENTION_DATA)",
    )


def add_model_directory(parser: argparse.ArgumentParser) -> None:
    """Adds the first argument of commands that need a trained model."""
    parser.add_argument(
        "model_directory",
        metavar="MODEL",
        help="the folder that `train` filled, or the name of a trained model "
        "of the zoo (`relative-attention list`)",
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Adds the first arguments of commands that several models work for.

    Options may stand between them; `options.models` is the list of all.
    """
    parser.add_argument(
        "words",
        nargs="+",
        metavar="MODEL",
        help="the folder that `train` filled, or the name of a trained model "
        "of the zoo (`relative-attention list`); several with the same "
        "vocabulary work together, by the mean of their probabilities",
    )
    parser.set_defaults(settle=_settle_models)


def _settle_models(
    options: argparse.Namespace,
    words: list[str],
    error: Callable[[str], NoReturn],
) -> None:
    """Takes all words for models."""
    options.models = words
