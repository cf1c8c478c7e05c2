"""OpenNMT-tf, the peer that training and translating are compared with.

Its last release needs TensorFlow 2.13, so it lives in an environment of its
own, which is made here on first use.
"""

import argparse
import itertools
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import relative_attention as ra
from benchmarks.harness.engine import engine_command

NAME = "OpenNMT-tf 2.32.0"
# tensorflow-text is left out: it is needed for SentencePiece in the graph
# alone, and for want of its wheel pip would go back to TensorFlow 2.12.
_REQUIREMENTS = {"OpenNMT-tf": "2.32.0", "tensorflow": "2.13.1"}
# The newest Python that TensorFlow 2.13 has wheels for.
_NEWEST_PYTHON = (3, 11)

# What engines of training run in.
ENVIRONMENT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # One CPU is compared with itself, also where there is a GPU.
    "CUDA_VISIBLE_DEVICES": "-1",
}


def add_peer_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a command the options `--peer` and `--peer-environment`."""
    parser.add_argument(
        "--peer", choices=["opennmt-tf"], help="a peer to measure as well"
    )
    add_environment_argument(parser)


def add_environment_argument(parser: argparse.ArgumentParser) -> None:
    """Gives a command the option `--peer-environment`."""
    parser.add_argument(
        "--peer-environment",
        metavar="DIR",
        default=".venv-opennmt-tf",
        help="its virtual environment, made if need be (default: %(default)s)",
    )


def opennmt_tf_command(python: str, task: str, **arguments: Any) -> list[str]:
    """Returns the command of a task of `opennmt_tf_engine`."""
    module = "benchmarks.harness.opennmt_tf_engine"
    return engine_command(module, {"task": task, **arguments}, python)


def sizes_of(config: "ra.TransformerConfig") -> dict[str, Any]:
    """Returns the arguments of `make_model` of `opennmt_tf_engine`."""
    return {
        "num_layers": config.num_encoder_layers,
        "num_units": config.hidden_dim,
        "num_heads": config.num_heads,
        "ffn_inner_dim": config.intermediate_dim,
        "maximum_relative_position": config.max_relative_position,
        "dropout": config.dropout,
        # As `dropout` of this package: embeddings and outputs of sublayers.
        "attention_dropout": config.attention_dropout,
        "ffn_dropout": config.intermediate_dropout,
    }


def prepare_environment(folder: str) -> str:
    """Makes OpenNMT-tf's virtual environment, unless it is there.

    Args:
        folder: The path of the environment.

    Returns:
        The path of its Python.

    Raises:
        InputError: If it cannot be made.
    """
    python = pathlib.Path(folder, "bin", "python").absolute()
    if _is_installed(python):
        return str(python)
    print(f"Installing {NAME} in {folder} (a few minutes) ...", flush=True)
    pins = [f"{name}=={version}" for name, version in _REQUIREMENTS.items()]
    for command in (
        [_base_python(), "-m", "venv", folder],
        [str(python), "-m", "pip", "install", "--quiet", *pins],
    ):
        if subprocess.run(command).returncode:
            raise ra.InputError(f"`{' '.join(command)}` failed: see above.")
    return str(python)


def _base_python() -> str:
    """Returns a Python that the environment can be made with."""
    if sys.version_info[:2] <= _NEWEST_PYTHON:
        return sys.executable
    name = "python" + ".".join(map(str, _NEWEST_PYTHON))
    if python := shutil.which(name):
        return python
    raise ra.InputError(
        f"{NAME} needs {name}, which is not on the path. Install it, or make "
        "the environment elsewhere and pass `--peer-environment`."
    )


def write_vocabulary(path: pathlib.Path, size: int) -> None:
    """Writes pieces as their ids, so that no piece is torn at a blank in it.

    Args:
        path: The path of the file to write.
        size: An integer, the number of pieces.
    """
    pieces = ["<blank>", "<s>", "</s>", *map(str, range(3, size))]
    path.write_text("\n".join(pieces) + "\n")


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


def _is_installed(python: pathlib.Path) -> bool:
    """Returns whether an environment's Python has the versions wanted."""
    code = "import importlib.metadata as m; print(" + ", ".join(
        f"m.version({name!r})" for name in _REQUIREMENTS
    )
    try:
        answer = subprocess.run(
            [python, "-c", code + ")"], capture_output=True, text=True
        )
    except OSError:
        return False
    return answer.stdout.split() == list(_REQUIREMENTS.values())
