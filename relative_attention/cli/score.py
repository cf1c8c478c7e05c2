"""Scores given translations: `relative-attention score`."""

import argparse
import sys

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_models
from relative_attention.cli.decoding_options import one_or_all
from relative_attention.cli.output_file import check_output
from relative_attention.cli.progress import show_progress
from relative_attention.cli.standard_streams import standard_output
from relative_attention.errors import InputError


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "score",
        _run,
        "print how probable a model finds given translations: log-probability "
        "(natural), tab, number of tokens",
        "relative-attention score runs/my_model --source test.en "
        "--target test.de > scores.tsv",
    )
    add_models(parser)
    parser.add_argument("--source", metavar="F", required=True)
    parser.add_argument("--target", metavar="F", required=True)
    parser.add_argument(
        "--output",
        metavar="F",
        help="a line for each pair, the end of sentence included in both "
        "numbers (default: standard output)",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.decoding import corpus_perplexity
    from relative_attention.decoding import score_translations
    from relative_attention.files import atomic_file
    from relative_attention.saving import load_translator

    check_output(options.output)
    output = None if options.output else standard_output()
    sources, targets = _read_pairs(options.source, options.target)
    scores = score_translations(
        load_translator(one_or_all(options.models)),
        sources,
        targets,
        report=lambda done: show_progress(done, len(sources)),
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    lines = [f"{s.log_probability:.6f}\t{s.num_tokens}\n" for s in scores]
    if options.output:
        with atomic_file(options.output, "w") as file:
            file.writelines(lines)
    elif output is not None:
        output.writelines(lines)
        output.flush()
    print(
        f"{len(scores):,} pairs, {sum(s.num_tokens for s in scores):,} tokens, "
        f"log-probability {sum(s.log_probability for s in scores):.4f}, "
        f"perplexity {corpus_perplexity(scores):.4f}",
        file=sys.stderr,
    )


def _read_pairs(source: str, target: str) -> tuple[list[str], list[str]]:
    """Reads both files, and refuses pairs that cannot be scored."""
    from relative_attention.data.lines import read_lines

    # Once each: a pipe cannot be read again.
    sources, targets = (list(read_lines(path)) for path in (source, target))
    if len(sources) != len(targets):
        raise InputError(
            "The two files must have a line for each other's lines. Received: "
            f"{source} with {len(sources):,} lines, {target} with "
            f"{len(targets):,}."
        )
    if not sources:
        raise InputError(
            f"{source} and {target} are empty: there is nothing to score."
        )
    for path, lines in ((source, sources), (target, targets)):
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                raise InputError(
                    f"{path}, line {number:,} is empty: there is nothing to "
                    "score. Leave the pair out of both files."
                )
    return sources, targets
