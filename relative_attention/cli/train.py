"""Trains a model: `relative-attention train`."""

import argparse
import os
import pathlib
import re
from collections.abc import Callable
from typing import NoReturn

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_data_folder

_OVERRIDE = re.compile(r"\w+\.\w+=")


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "train",
        _run,
        "train the model of a recipe and score it; or go on with a run",
        "relative-attention train small_relative "
        "data.source=my.en data.target=my.de\n"
        "  relative-attention train --resume runs/small_relative "
        "training.epochs=40",
    )
    parser.usage = (
        "relative-attention train [options] RECIPE [section.key=value ...]\n"
        "       relative-attention train [options] --resume DIR "
        "[section.key=value ...]"
    )
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="RECIPE",
        help="name of a recipe (see `list`), or a YAML file, or a folder with "
        "a recipe.yaml; after it, or after --resume DIR, values of the recipe "
        "to replace (section.key=value)",
    )
    parser.add_argument("--output", metavar="DIR", help="default: runs/RECIPE")
    add_data_folder(parser)
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--resume",
        nargs="?",
        const=True,
        default=False,
        metavar="DIR",
        help="go on with the run in DIR, with its recipe and its data; or, "
        "with a RECIPE, with that in --output. --resume=auto: start it where "
        "there is none",
    )
    either.add_argument(
        "--overwrite",
        action="store_true",
        help="delete the run in --output first",
    )
    parser.set_defaults(settle=_settle)


def _settle(
    options: argparse.Namespace,
    words: list[str],
    error: Callable[[str], NoReturn],
) -> None:
    """Tells the recipe, the run to go on with and the overrides apart.

    A run that is resumed without a recipe is its own recipe.

    Args:
        options: `argparse.Namespace`. The options that argparse knows.
        words: list of strings. The other arguments.
        error: function. It is called with what is wrong.
    """
    if isinstance(options.resume, str) and options.resume != "auto":
        # What argparse takes for the value may be the next argument.
        if is_override(options.resume) or (options.output and not words):
            words = [options.resume, *words]
            options.resume = True
    recipes = [word for word in words if not is_override(word)]
    options.overrides = [word for word in words if is_override(word)]
    options.recipe = recipes[0] if recipes else None
    # Not the form of an override: reading it says so.
    options.overrides += recipes[1:]
    if isinstance(options.resume, str) and options.resume != "auto":
        if options.output not in (None, options.resume):
            error(
                "--resume DIR and --output DIR name two folders: "
                f"{options.resume} and {options.output}"
            )
        options.output = options.resume
        options.recipe = options.recipe or options.resume
        options.resume = True
    if options.recipe is None:
        error(
            "a RECIPE is needed (`relative-attention list` shows those that "
            "come with the package), or --resume DIR"
        )
    if options.resume and options.output is None:
        # The folder of a run is its recipe, too.
        if os.path.isdir(options.recipe):
            options.output = options.recipe


def is_override(word: str) -> bool:
    """Returns whether a word is `section.key=value`, and no file."""
    return bool(_OVERRIDE.match(word)) and not os.path.exists(word)


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention import runs

    if options.output and options.resume:
        # Before its recipe is looked for.
        runs.check_resume(options.output, options.resume)
    recipe = runs.find_recipe(options.recipe)
    recipe = recipe.override(options.overrides)
    options.output = options.output or pathlib.Path("runs", recipe.name)
    results = runs.train(
        recipe,
        options.output,
        data_directory=options.data,
        resume=options.resume,
        overwrite=options.overwrite,
    )
    for name, scores in results["scores"].items():
        print(f"{name}: BLEU {scores['bleu']} ({scores['bleu_signature']})")
    print(f"model: {options.output}")
