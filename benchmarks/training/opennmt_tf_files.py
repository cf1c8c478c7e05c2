"""What OpenNMT-tf trains on: the same pairs in the same pieces."""

import pathlib
from typing import Any

import numpy as np

import relative_attention as ra
from benchmarks.harness.opennmt_tf import write_vocabulary


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
    folder.mkdir()
    _write_ids(
        folder / "train.source", tokens.source_ids, tokens.source_offsets
    )
    _write_ids(
        folder / "train.target", tokens.target_ids, tokens.target_offsets
    )
    write_vocabulary(folder / "vocabulary", vocabulary_size)
    return _make_config(folder, batch_tokens, steps)


def _write_ids(
    path: pathlib.Path, ids: np.ndarray, offsets: np.ndarray
) -> None:
    """Writes a line of ids for each sentence."""
    with open(path, "w") as file:
        for start, end in zip(offsets[:-1], offsets[1:]):
            file.write(" ".join(map(str, ids[start:end])) + "\n")


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
