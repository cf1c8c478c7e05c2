"""Trains on a small corpus: `relative-attention demo`."""

import argparse
from collections.abc import Callable
from typing import NoReturn

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "demo",
        _run,
        "make a small corpus, train on it and translate, in a few minutes",
        "relative-attention demo --languages en fr",
    )
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="section.key=value",
        help="values of the recipe to replace",
    )
    parser.add_argument("--output", metavar="DIR", default="runs/demo")
    parser.add_argument(
        "--languages",
        nargs=2,
        default=("en", "de"),
        choices=("en", "de", "fr"),
        help="source and target (default: en de)",
    )
    parser.set_defaults(settle=_settle)


def _settle(
    options: argparse.Namespace,
    words: list[str],
    error: Callable[[str], NoReturn],
) -> None:
    """Takes every word for an override of the recipe."""
    options.overrides = words


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.runs.demo import run_demo

    run_demo(options.output, tuple(options.languages), options.overrides)
