"""How speed and memory of training grow with width, length and corpus.

The program trains 3 + 3 layers on random tokens, in float32, at several widths
and at several lengths of a sentence. Then it prepares corpora of several sizes,
the lines of `DIR` over and over, and makes batches of them. From the root of a
checkout, with the package installed:

    python -m benchmarks.training.growth --data DIR

`DIR` holds `train.en` and `train.de`, plain or `.gz`. Each row is a process of
its own. A token is one of source or target, padding not counted. The start is
what a process does, after its imports, until its first update has ended: it
makes the model and its graph. With a corpus, it encodes the text with a
vocabulary that is there, sorts it by length and makes a batch. Peak memory is
the largest resident set, as the system counts it.
"""

import argparse
import itertools
import pathlib
import tempfile
import time
from typing import Any

import relative_attention as ra
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import largest_resident_set
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Row
from benchmarks.speed_tables import growth_table
from benchmarks.training.workload import add_data_argument
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import prepare_corpus
from benchmarks.training.workload import train_on_random_tokens

# The width where lengths grow, and the length where widths do.
_WIDTH = 256
_LENGTH = 32


def measure(options: argparse.Namespace) -> list[Row]:
    """Measures every size, each in its own process."""
    text = find_corpus(options.data)
    rows: list[Row] = []

    def add(what: str, size: int, *call: Any) -> None:
        show_progress(f"{what}: {size:,}")
        rows.append({"grows": what, "size": size, **in_fresh_process(*call)})

    for width in options.widths:
        add("model width", width, _train, width, _LENGTH, options)
    for length in options.lengths:
        add("tokens a sentence", length, _train, _WIDTH, length, options)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare_corpus(text, options.vocabulary_size, folder)
        for pairs in options.pairs:
            add("pairs in the corpus", pairs, _feed, text, folder, pairs)
    show_progress()
    return rows


def _train(width: int, length: int, options: argparse.Namespace) -> Row:
    return train_on_random_tokens(
        "transformer_small_relative",
        "float32",
        options.vocabulary_size,
        (max(options.batch_tokens // length, 1), length),
        options.steps,
        hidden_dim=width,
        intermediate_dim=4 * width,
        num_heads=width // 64,
    )


def _feed(text: ra.ParallelCorpus, folder: pathlib.Path, pairs: int) -> Row:
    files = [folder / f"{pairs}.{side}" for side in ("source", "target")]
    for path, lines in zip(files, zip(*text, strict=True), strict=True):
        repeated = itertools.islice(itertools.cycle(lines), pairs)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in repeated)
    start = time.perf_counter()
    vocabulary = ra.Vocabulary.load(folder / "vocabulary.model")
    corpus = ra.TokenCorpus.prepare(
        ra.ParallelCorpus(*map(str, files)),
        vocabulary,
        vocabulary,
        100,
        folder / f"{pairs}",
    )
    batches = ra.TokenBatches(corpus, 4096)
    batches.train_batch(0)
    started = time.perf_counter()
    speeds = []
    for step in range(1, 101):
        before = time.perf_counter()
        inputs, labels = batches.train_batch(step)
        tokens = (inputs["source_token_ids"] > 0).sum() + (labels > 0).sum()
        speeds.append(float(tokens / (time.perf_counter() - before)))
    return {
        "tokens_per_second": speeds,
        "start_seconds": started - start,
        "peak_memory_bytes": largest_resident_set(),
    }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data_argument(parser)
    for name, sizes in {
        "--widths": [128, 256, 512, 1024],
        "--lengths": [16, 64, 256, 1024],
        "--pairs": [30_000, 400_000, 5_000_000],
    }.items():
        parser.add_argument(
            name,
            type=positive_int,
            nargs="+",
            default=sizes,
            metavar="NUMBER",
            help="default: %(default)s",
        )
    for name, number in {
        "--vocabulary-size": 8000,
        "--batch-tokens": 2048,
        "--steps": 5,
    }.items():
        parser.add_argument(
            name, type=positive_int, default=number, metavar="NUMBER"
        )


main = benchmark(
    "training.growth",
    __doc__,
    "--data data/multi30k",
    _add_arguments,
    measure,
    growth_table,
)

if __name__ == "__main__":
    main()
