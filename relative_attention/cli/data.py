"""Fetches corpora: `relative-attention data`."""

import argparse
import os
import pathlib
import sys

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command

# Those of `corpora.wmt14`; importing it would load the package for `--help`.
_CORPORA = ("wmt14_en_de", "wmt14_en_fr")


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "data",
        _run,
        "get the corpora of the paper, on a machine with internet; needs the "
        "extra `wmt`",
        "relative-attention data wmt14_en_de",
    )
    parser.add_argument("corpus", choices=_CORPORA)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="default: a folder of the corpus' name in "
        "$RELATIVE_ATTENTION_DATA, or else in data",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.corpora.recipe_text import DATA_VARIABLE
    from relative_attention.corpora.wmt14 import fetch_wmt14

    root = os.environ.get(DATA_VARIABLE) or "data"
    output = options.output or pathlib.Path(root, options.corpus)

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    print(f"corpus: {fetch_wmt14(options.corpus, output, report)}")
