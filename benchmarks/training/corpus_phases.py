"""What happens to a corpus before the first step of training."""

import argparse
import pathlib
import time
from collections.abc import Callable

import numpy as np

import relative_attention as ra
from benchmarks.harness.peak_memory import PeakMemory
from benchmarks.harness.peak_memory import anonymous_memory

_MAX_LENGTH = 256

Figures = dict[str, float]
Phase = Callable[
    ["ra.ParallelCorpus", pathlib.Path, argparse.Namespace], Figures
]


def read_texts(
    corpus: "ra.ParallelCorpus",
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> Figures:
    """Reads both texts, as a check of the corpus does."""
    corpus.check()
    return {}


def learn_vocabulary(
    corpus: "ra.ParallelCorpus",
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> Figures:
    """Learns a joint vocabulary and writes it to the folder."""
    lines = (line for pair in corpus for line in pair)
    vocabulary = ra.Vocabulary.train(lines, options.vocabulary_size)
    vocabulary.save(folder / "vocabulary.model")
    return {}


def encode(
    corpus: "ra.ParallelCorpus",
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> Figures:
    """Encodes both texts and caches the ids in the folder."""
    _load_tokens(corpus, folder)
    return {}


def start_again(
    corpus: "ra.ParallelCorpus",
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> Figures:
    """Makes the first batch, once everything is cached."""
    # As `train` asks before it reads the texts.
    if not ra.TokenCorpus.is_made_of(corpus, folder / "tokens"):
        raise ra.InputError("The corpus has changed since it was encoded.")
    tokens = _load_tokens(corpus, folder)
    batches = ra.TokenBatches(tokens, options.batch_tokens)
    next(iter(batches.train_dataset()))
    return {"batches_an_epoch": len(batches)}


def feed(
    corpus: "ra.ParallelCorpus",
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> Figures:
    """Makes many batches, from the middle of an epoch on."""
    tokens = _load_tokens(corpus, folder)
    batches = ra.TokenBatches(tokens, options.batch_tokens)
    # From the middle of an epoch on, as after a resume.
    dataset = batches.train_dataset(first_step=len(batches) // 2)
    iterator = dataset.as_numpy_iterator()
    num_tokens = num_positions = 0
    next(iterator)
    before = anonymous_memory()
    start = time.perf_counter()
    for _ in range(options.batches):
        inputs, labels = next(iterator)
        for array in (inputs["source_token_ids"], labels):
            num_tokens += int(np.count_nonzero(array))
            num_positions += array.size
    seconds = time.perf_counter() - start
    return {
        "batches_per_second": options.batches / seconds,
        "tokens_per_second": num_tokens / seconds,
        "share_of_padding": 1 - num_tokens / num_positions,
        "grown_bytes": anonymous_memory() - before,
    }


def _load_tokens(
    corpus: "ra.ParallelCorpus", folder: pathlib.Path
) -> "ra.TokenCorpus":
    """Returns the encoded corpus, from its cache where there is one."""
    vocabulary = ra.Vocabulary.load(folder / "vocabulary.model")
    return ra.TokenCorpus.prepare(
        corpus, vocabulary, vocabulary, _MAX_LENGTH, folder / "tokens"
    )


PHASES: dict[str, Phase] = {
    "read both texts": read_texts,
    "learn a vocabulary": learn_vocabulary,
    "encode": encode,
    "first batch, once cached": start_again,
    "feed": feed,
}
# These import TensorFlow, which takes memory and time of its own.
_WITH_TENSORFLOW = (start_again, feed)


def run_phase(
    name: str,
    corpus: "ra.ParallelCorpus",
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> Figures:
    """Runs a phase in this process.

    Args:
        name: A string, a key of `PHASES`.
        corpus: A `ParallelCorpus`.
        folder: The path of a folder for what the phases leave.
        options: The options of `large_corpus`.

    Returns:
        A dict of what the phase took.
    """
    phase = PHASES[name]
    if phase in _WITH_TENSORFLOW:
        from relative_attention.quiet_tensorflow import load_tensorflow_quietly

        load_tensorflow_quietly()
    before = anonymous_memory()
    start = time.perf_counter()
    with PeakMemory() as memory:
        found = phase(corpus, folder, options)
    return {
        "seconds": time.perf_counter() - start,
        "peak_bytes": memory.peak,
        "bytes_before": before,
        **found,
    }
