"""The models that are trained side by side, each as an engine."""

import argparse
import pathlib

import relative_attention as ra
from benchmarks.harness import opennmt_tf
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import engine_command
from benchmarks.training.opennmt_tf_files import write_training_files
from benchmarks.training.workload import add_data_argument

_PRECISIONS = ("float32", "mixed_bfloat16")
_PRESETS = {
    "relative": "transformer_small_relative",
    "sinusoidal": "transformer_small",
}
PEER = f"{opennmt_tf.NAME}, relative, float32"

ENVIRONMENT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # One CPU is compared with itself, also where there is a GPU.
    "CUDA_VISIBLE_DEVICES": "-1",
}
# OpenNMT-tf leaves the first two steps out of its own figures.
_SHORTEST_WINDOW = 5


def add_engine_arguments(parser: argparse.ArgumentParser, window: int) -> None:
    """Gives a command the options that engines are made by.

    Args:
        parser: The parser of the command.
        window: An integer, the default of `--window`.
    """
    add = parser.add_argument
    add_data_argument(parser)
    add("--vocabulary-size", type=positive_int, default=8000)
    add("--batch-tokens", type=positive_int, default=2048)
    add("--precisions", nargs="+", choices=_PRECISIONS, default=_PRECISIONS)
    add(
        "--window",
        type=positive_int,
        default=window,
        metavar="STEPS",
        help="steps of a turn (default: %(default)s)",
    )
    opennmt_tf.add_peer_arguments(parser)


def check_window(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> None:
    """Ends the command if its `--window` is too short.

    Args:
        parser: The parser of the command.
        options: The options that it read.
    """
    if options.window < _SHORTEST_WINDOW:
        parser.error(
            f"--window must be at least {_SHORTEST_WINDOW}. Received: "
            f"{options.window}."
        )


def our_engines(
    corpus: "ra.ParallelCorpus",
    options: argparse.Namespace,
    folder: pathlib.Path,
    seed: int,
) -> dict[str, list[str]]:
    """Returns the command line of each engine of ours, by its name.

    Args:
        corpus: A `ParallelCorpus`.
        options: The options of the command: `vocabulary_size`,
            `batch_tokens`, `precisions`, and `window`, the steps of a turn.
        folder: The path of the folder that the corpus was prepared in.
        seed: An integer, for weights and the order of batches.
    """
    arguments = {
        "source": corpus.source,
        "target": corpus.target,
        "vocabulary_size": options.vocabulary_size,
        "folder": str(folder),
        "batch_tokens": options.batch_tokens,
        "steps": options.window,
        # In a repeat, all of ours see the same batches.
        "seed": seed,
    }
    module = "benchmarks.training.keras_engine"
    return {
        f"{positions}, {precision}": engine_command(
            module, {"preset": preset, "dtype": precision, **arguments}
        )
        for precision in options.precisions
        for positions, preset in _PRESETS.items()
    }


def peer_engine(
    tokens: "ra.TokenCorpus",
    options: argparse.Namespace,
    folder: pathlib.Path,
    repeat: int,
    python: str,
) -> list[str]:
    """Returns the command line of OpenNMT-tf.

    Args:
        tokens: A `TokenCorpus`, the ids that ours learn from.
        options: See `our_engines`.
        folder: The path of a folder for its files.
        repeat: An integer that no other start has.
        python: The path of its environment's Python.
    """
    config = write_training_files(
        options.vocabulary_size,
        tokens,
        options.batch_tokens,
        options.window,
        folder / f"opennmt_tf_{repeat}",
    )
    module = "benchmarks.training.opennmt_tf_engine"
    return engine_command(module, {"config": config}, python)
