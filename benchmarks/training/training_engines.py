"""The models that are trained side by side, each as an engine."""

import argparse
import itertools
import pathlib
from collections.abc import Iterable
from typing import Any

import relative_attention as ra
from benchmarks.harness import opennmt_tf
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import engine_command
from benchmarks.harness.opennmt_tf import write_vocabulary
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
# OpenNMT-tf excludes the first two steps from its own figures.
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


def prepare_peer(options: argparse.Namespace) -> str | None:
    """Checks the window; returns the Python of the peer, if asked for.

    Raises:
        InputError: If `--window` is too short, or the peer cannot be had.
    """
    if options.window < _SHORTEST_WINDOW:
        raise ra.InputError(
            f"--window must be at least {_SHORTEST_WINDOW}. Received: "
            f"{options.window}."
        )
    if options.peer is None:
        return None
    return opennmt_tf.prepare_environment(options.peer_environment)


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


def write_training_files(
    vocabulary_size: int,
    tokens: "ra.TokenCorpus",
    batch_tokens: int,
    steps: int,
    folder: pathlib.Path,
) -> dict[str, Any]:
    """Writes texts and vocabulary for OpenNMT-tf.

    Pieces are written as their ids, so that no piece is torn at a blank in
    it. OpenNMT-tf adds its own three special tokens and one for unknown
    words.

    Args:
        vocabulary_size: An integer.
        tokens: A `TokenCorpus`.
        batch_tokens: An integer, the budget of a batch.
        steps: An integer, the steps of a turn.
        folder: The path of a folder to make.

    Returns:
        The configuration of OpenNMT-tf, a dict.
    """
    folder.mkdir(exist_ok=True)
    for side in ("source", "target"):
        ids = getattr(tokens, f"{side}_ids")
        offsets = getattr(tokens, f"{side}_offsets")
        rows = (ids[a:b] for a, b in itertools.pairwise(offsets))
        write_ids(folder / f"train.{side}", rows)
    write_vocabulary(folder / "vocabulary", vocabulary_size)
    return _make_config(folder, batch_tokens, steps)


def write_ids(path: pathlib.Path, rows: Iterable[Iterable[int]]) -> None:
    """Writes a line of ids for each sentence."""
    with open(path, "w") as file:
        file.writelines(f"{' '.join(map(str, row))}\n" for row in rows)


def _make_config(
    folder: pathlib.Path, batch_tokens: int, steps: int
) -> dict[str, Any]:
    """Returns the configuration that trains as this package does."""
    return {
        "model_dir": str(folder / "run"),
        "data": {
            "train_features_file": str(folder / "train.source"),
            "train_labels_file": str(folder / "train.target"),
            "source_vocabulary": str(folder / "vocabulary"),
            "target_vocabulary": str(folder / "vocabulary"),
            # OpenNMT-tf counts the tokens that enter the encoder and those
            # that leave the decoder (`length` in WordEmbedder.make_features
            # and TrainingStats._update_words_counter): the end of sentence is
            # counted in the target but, unless it is asked for, neither read
            # nor counted in the source. Here it is in both, as it is in this
            # package: the tokens are then the same, trained on and counted.
            "source_sequence_controls": {"end": True},
        },
        "params": {
            "optimizer": "Adam",
            "optimizer_params": {
                "beta_1": 0.9,
                "beta_2": 0.98,
                "epsilon": 1e-9,
            },
            "learning_rate": 1.0,
            "decay_type": "NoamDecay",
            "decay_params": {"model_dim": 256, "warmup_steps": 4000},
            "label_smoothing": 0.1,
        },
        "train": {
            # Rows times the longer side, one length a batch: the rule of
            # `TokenBatches`.
            "batch_size": batch_tokens,
            "batch_type": "tokens",
            "length_bucket_width": 1,
            "effective_batch_size": None,
            "sample_buffer_size": -1,
            "save_checkpoints_steps": None,
            "save_summary_steps": steps,
        },
    }
