"""What a corpus of millions of pairs takes, from text to batches.

The program makes up a corpus and takes it through what `relative-attention
train` does before its first step: reads both texts, learns a joint
vocabulary, encodes, and, once that is cached, starts again and feeds batches.
From the root of a checkout, with the package installed:

    python -m benchmarks.training.large_corpus --pairs 500000 5000000

Every phase is a process of its own. Its memory is the peak of what only the
process has (`RssAnon`; Linux): the pages of mapped files are the system's,
which takes them back when it needs them. With several sizes one sees what
grows.

The text is generated, from a seed; `made_up_corpus.py` says how.
"""

import argparse
import os
import pathlib
import tempfile
import time
from collections.abc import Sequence

from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.fresh_process import in_fresh_process
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.tables import markdown_table
from benchmarks.training.corpus_phases import PHASES
from benchmarks.training.corpus_phases import run_phase
from benchmarks.training.made_up_corpus import SIDES
from benchmarks.training.made_up_corpus import write_corpus


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser("training.large_corpus", __doc__, "--pairs 200000")
    add = parser.add_argument
    pairs = [5_000_000]
    add("--pairs", type=positive_int, nargs="+", default=pairs, metavar="N")
    add("--vocabulary-size", type=positive_int, default=32_768)
    add("--batch-tokens", type=positive_int, default=4096)
    add(
        "--batches",
        type=positive_int,
        default=3000,
        help="to feed (default: 3000)",
    )
    add("--seed", type=int, default=0)
    add(
        "--directory",
        metavar="DIR",
        help="where to put corpora and caches for the time being (default: "
        "the system's folder for temporary files)",
    )
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Takes a corpus of each size through all phases.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each size and phase.
    """
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        return [
            row
            for num_pairs in options.pairs
            for row in _measure_size(num_pairs, pathlib.Path(root), options)
        ]


def _measure_size(
    num_pairs: int, root: pathlib.Path, options: argparse.Namespace
) -> list[Row]:
    """Takes a corpus of one size through all phases."""
    folder = root / str(num_pairs)
    folder.mkdir()
    corpus = write_corpus(folder, num_pairs, options.seed)
    rows: list[Row] = []
    for name in PHASES:
        show_progress(f"{num_pairs:,} pairs: {name}")
        start = time.perf_counter()
        figures = in_fresh_process(run_phase, name, corpus, folder, options)
        rows.append(
            {
                "pairs": num_pairs,
                "phase": name,
                "seconds_of_process": time.perf_counter() - start,
                **figures,
            }
        )
    show_progress()
    text = sum(os.path.getsize(folder / side) for side in SIDES)
    cache = sum(file.stat().st_size for file in (folder / "tokens").iterdir())
    return [{**row, "text_bytes": text, "cache_bytes": cache} for row in rows]


def describe(result: Result) -> str:
    """Returns the table of what each phase of each size took."""
    cells = [
        [
            row["phase"],
            f"{row['pairs']:,}",
            f"{row['seconds']:,.1f}",
            f"{row['seconds_of_process']:,.1f}",
            f"{row['peak_bytes'] / 1e6:,.0f}",
            f"{row['bytes_before'] / 1e6:,.0f}",
            _remark(row),
        ]
        for row in result.rows
    ]
    header = [
        "phase",
        "pairs",
        "seconds",
        "with start of process",
        "peak MB",
        "MB before",
        "",
    ]
    options = result.options
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"{options['vocabulary_size']:,} pieces, {options['batch_tokens']:,} "
        "tokens a batch. Memory is anonymous; before the last two phases that "
        "of TensorFlow."
    )


def _remark(row: Row) -> str:
    """Returns what else is known of a phase."""
    if row["phase"] == "read both texts":
        return f"{row['text_bytes'] / 1e9:,.2f} GB of text"
    if row["phase"] == "encode":
        return f"{row['cache_bytes'] / 1e9:,.2f} GB of ids on disk"
    if "batches_an_epoch" in row:
        return f"{row['batches_an_epoch']:,} batches an epoch"
    if "batches_per_second" in row:
        return (
            f"{row['batches_per_second']:,.0f} batches/s, "
            f"{row['tokens_per_second']:,.0f} tokens/s, "
            f"{row['share_of_padding']:.1%} padding, "
            f"{row['grown_bytes'] / 1e6:+,.1f} MB while feeding"
        )
    return ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    run_benchmark(parser, options, arguments, measure, describe)


if __name__ == "__main__":
    main()
