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
from collections.abc import Iterator
from typing import Any

import numpy as np

import relative_attention as ra
from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import largest_resident_set
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Row
from benchmarks.speed_tables import growth_table
from benchmarks.training.workload import add_data_argument
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import make_model
from benchmarks.training.workload import prepare_corpus

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
    import keras
    import tensorflow as tf

    start = time.perf_counter()
    rng = np.random.default_rng(0)
    shape = (max(options.batch_tokens // length, 1), length)
    times: list[float] = []

    def batches() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        while True:
            ids = rng.integers(2, options.vocabulary_size, (3, *shape))
            source, target, labels = ids.astype(np.int32)
            yield (
                {"source_token_ids": source, "target_token_ids": target},
                labels,
            )

    model = make_model(
        "transformer_small_relative",
        options.vocabulary_size,
        "float32",
        hidden_dim=width,
        intermediate_dim=4 * width,
        num_heads=width // 64,
    )
    # As in every training, the graph does not know the length.
    spec = tf.TensorSpec((None, None), tf.int32)
    names = ("source_token_ids", "target_token_ids")
    model.fit(
        tf.data.Dataset.from_generator(
            batches, output_signature=(dict.fromkeys(names, spec), spec)
        ),
        steps_per_epoch=options.steps + 2,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: times.append(
                    time.perf_counter()
                )
            )
        ],
        shuffle=False,
        verbose=0,
    )
    # The first step makes the graph, and the second still takes memory.
    seconds = np.diff(times)[1:]
    return {
        "tokens_per_second": (2 * np.prod(shape) / seconds).tolist(),
        "start_seconds": times[0] - start,
        "peak_memory_bytes": largest_resident_set(),
    }


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
    add_numbers(
        parser,
        widths=[128, 256, 512, 1024],
        lengths=[16, 64, 256, 1024],
        pairs=[30_000, 400_000, 5_000_000],
        vocabulary_size=8000,
        batch_tokens=2048,
        steps=5,
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
