"""Trains a model on what others translate: `relative-attention distill`."""

import argparse
import pathlib
from collections.abc import Callable
from typing import NoReturn

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_data_folder
from relative_attention.cli.train import is_override


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "distill",
        _run,
        "train one model on its text and on what others translate of it; the "
        "same command goes on where it was interrupted",
        "relative-attention distill small_relative --teachers runs/a runs/b "
        "--output runs/student data.source=my.en data.target=my.de",
    )
    parser.usage = (
        "relative-attention distill [options] RECIPE --teachers MODEL "
        "[MODEL ...] [--backward MODEL ...] [section.key=value ...]"
    )
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="RECIPE",
        help="the student's, as of `train`; after it values of the recipe to "
        "replace (section.key=value)",
    )
    _add_teachers(parser)
    parser.add_argument(
        "--output", metavar="DIR", help="default: runs/RECIPE_distilled"
    )
    add_data_folder(parser)
    parser.add_argument(
        "--num-beams",
        type=int,
        metavar="N",
        help="of all teachers' beam search (default: the first teacher's)",
    )
    parser.add_argument(
        "--closest-of",
        type=int,
        metavar="N",
        help="of the N most probable translations of each line, N at most the "
        "number of beams, learn the one closest to the recipe's target, by "
        "sentence BLEU, not the most probable",
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="most source positions, over all beams, translated at a time: "
        "fewer need less memory (default: 8192)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="delete the run in --output first, and its translations",
    )
    parser.set_defaults(settle=_settle)


def _add_teachers(parser: argparse.ArgumentParser) -> None:
    """Adds who translates, and how."""
    parser.add_argument(
        "--teachers",
        nargs="+",
        required=True,
        metavar="MODEL",
        help="folders of trained models, or names of the zoo, with the same "
        "vocabulary, which the student gets; MODEL@TEXT may stand for MODEL, "
        "which then reads that text, the recipe's in a third language, line "
        "by line, together with others that do",
    )
    parser.add_argument(
        "--backward",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="likewise, models of the other direction: they translate the "
        "recipe's target into its source",
    )
    parser.add_argument(
        "--separately",
        action="store_true",
        help="each teacher translates all lines alone, and the student learns "
        "from all translations; vocabularies may then differ, and it gets that "
        "of the first",
    )


def _settle(
    options: argparse.Namespace,
    words: list[str],
    error: Callable[[str], NoReturn],
) -> None:
    """Tells the recipe, the teachers and the overrides apart.

    Args:
        options: `argparse.Namespace`. The options that argparse knows.
        words: list of strings. The other arguments.
        error: function. It is called with what is wrong.
    """
    # What follows `--teachers` or `--backward` is theirs to argparse.
    for name in ("teachers", "backward"):
        models = getattr(options, name)
        words = [*words, *filter(is_override, models)]
        setattr(options, name, [m for m in models if not is_override(m)])
    recipes = [word for word in words if not is_override(word)]
    if not recipes:
        error("a RECIPE is needed, before --teachers")
    if not options.teachers:
        error("--teachers needs at least one trained MODEL")
    options.recipe = recipes[0]
    # Not the form of an override: reading it says so.
    options.overrides = [*filter(is_override, words), *recipes[1:]]


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention import runs

    recipe = runs.find_recipe(options.recipe).override(options.overrides)
    output = options.output or pathlib.Path("runs", f"{recipe.name}_distilled")
    results = runs.distill(
        recipe,
        options.teachers,
        output,
        data_directory=options.data,
        overwrite=options.overwrite,
        num_beams=options.num_beams,
        batch_tokens=options.batch_tokens,
        backward=options.backward,
        separately=options.separately,
        closest_of=options.closest_of,
    )
    for name, scores in results["scores"].items():
        print(f"{name}: BLEU {scores['bleu']} ({scores['bleu_signature']})")
    print(f"model: {output}")
