"""Adds the options that say how to translate, in place of the recipe."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

DECODING_OPTIONS = ("num_beams", "length_penalty", "min_length", "max_length")


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Adds beams, penalty and limits of length to a command."""
    parser.add_argument(
        "--num-beams", type=int, metavar="N", help="default: the recipe's"
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="default: the recipe's",
    )
    parser.add_argument(
        "--min-length",
        type=int,
        metavar="N",
        help="the shortest translation, in tokens (default: 0)",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        metavar="N",
        help="the longest translation, in tokens (default: that of its "
        "source and what the recipe allows)",
    )


def add_dtype_option(parser: argparse.ArgumentParser) -> None:
    """Adds the precision in which a command computes."""
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        help="what weights are held and multiplied as (default: float32); "
        "bfloat16 is for processors that multiply it",
    )


def translator_of(
    options: argparse.Namespace, more_names: Sequence[str] = ()
) -> "Translator":
    """Returns the translator of a command line's models, set up as it says.

    Args:
        options: `argparse.Namespace`. The options of the command line.
        more_names: list of strings. Options of this command alone that
            `load_translator` takes.
    """
    from relative_attention.saving import load_translator

    given = {
        name: getattr(options, name)
        for name in (*DECODING_OPTIONS, *more_names)
        if getattr(options, name) is not None
    }
    try:
        return load_translator(one_or_all(options.models), **given)
    except ValueError as error:
        raise InputError(str(error)) from error


def one_or_all(models: list[str]) -> str | list[str]:
    """Returns a single name as such, as `load_translator` has it."""
    return models[0] if len(models) == 1 else models


def check_nbest(nbest: int, num_beams: int | None = None) -> None:
    """Raises `InputError` unless so many results can be given."""
    if nbest >= 1 and (num_beams is None or nbest <= num_beams):
        return
    if num_beams is None:
        raise InputError(f"--nbest must be at least 1. Received: {nbest}.")
    raise InputError(
        f"--nbest must be between 1 and the number of beams, {num_beams}. "
        f"Received: {nbest}. --num-beams asks for more beams."
    )
