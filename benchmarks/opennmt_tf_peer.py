"""OpenNMT-tf, the peer that training and translating are compared with.

Its last release needs TensorFlow 2.13, so it lives in an environment of its
own, which is made here on first use.
"""

import json
import pathlib
import shutil
import subprocess
import sys

NAME = "OpenNMT-tf 2.32.0"
# tensorflow-text is left out: it is needed for SentencePiece in the graph
# alone, and for want of its wheel pip would go back to TensorFlow 2.12.
_REQUIREMENTS = {"OpenNMT-tf": "2.32.0", "tensorflow": "2.13.1"}
# The newest Python that TensorFlow 2.13 has wheels for.
_NEWEST_PYTHON = (3, 11)


def prepare_environment(folder):
    """Make OpenNMT-tf's virtual environment, unless it is there.

    Args:
        folder: path of the environment.

    Returns:
        Path of its Python, a string.

    Raises:
        RuntimeError: if it cannot be made.
    """
    python = pathlib.Path(folder, "bin", "python").absolute()
    if _installed(python):
        return str(python)
    print(f"Installing {NAME} in {folder} (a few minutes) ...", flush=True)
    pins = [f"{name}=={version}" for name, version in _REQUIREMENTS.items()]
    _run([_base_python(), "-m", "venv", folder])
    _run([python, "-m", "pip", "install", "--quiet", *pins])
    if not _installed(python):
        raise RuntimeError(
            f"{' and '.join(pins)} are not in {folder} after their "
            "installation. Remove the folder and try again."
        )
    return str(python)


def write_workload(vocabulary_size, tokens, batch_tokens, window, folder):
    """Write what OpenNMT-tf trains on: the same pairs in the same pieces.

    Pieces are written as their ids, so that no piece is torn at a blank in
    it. OpenNMT-tf adds its own three special tokens and one for unknown
    words.

    Args:
        vocabulary_size: int.
        tokens: `TokenCorpus`.
        batch_tokens: int. Budget of a batch.
        window: int. Steps of a turn.
        folder: path of a folder for its files.

    Returns:
        Path of the configuration, a string.
    """
    folder = pathlib.Path(folder)
    folder.mkdir()
    _write_ids(
        folder / "train.source", tokens.source_ids, tokens.source_offsets
    )
    _write_ids(
        folder / "train.target", tokens.target_ids, tokens.target_offsets
    )
    _write_vocabulary(folder / "vocabulary", vocabulary_size)
    config = _config(folder, batch_tokens, window)
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=2))
    return str(path)


def write_model(model, folder):
    """Write a trained model for `opennmt_tf_translator.py`.

    Args:
        model: `Transformer` of the architecture of
            `transformer_small_relative`, all embeddings shared.
        folder: path of a folder to make.

    Returns:
        Path of the weights, a string; the vocabulary lies beside it.
    """
    import numpy as np

    from relative_attention.convert.opennmt_tf.weights import SOURCE_EMBEDDING
    from relative_attention.convert.opennmt_tf.weights import stored_weights

    arrays = {
        path: np.reshape(weight.variable, weight.shape)
        for path, weight in stored_weights(model).items()
    }
    rows = arrays[SOURCE_EMBEDDING]
    # There the end of sentence is 2, and 1 starts translations: with the zero
    # vector, as here. The last row is that of unknown words.
    rows = rows[[0, 2, 1, *range(3, len(rows))]]
    rows[1] = 0
    arrays[SOURCE_EMBEDDING] = np.concatenate([rows, 0 * rows[:1]])
    folder = pathlib.Path(folder)
    folder.mkdir()
    np.savez(folder / "weights.npz", **arrays)
    _write_vocabulary(folder / "vocabulary", model.config.vocabulary_size)
    return str(folder / "weights.npz")


def _write_vocabulary(path, size):
    """Pieces by their ids, so that no piece is torn at a blank in it."""
    pieces = ["<blank>", "<s>", "</s>", *map(str, range(3, size))]
    path.write_text("\n".join(pieces) + "\n")


def _config(folder, batch_tokens, window):
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
            "save_summary_steps": window,
        },
    }


def _write_ids(path, ids, offsets):
    with open(path, "w") as file:
        for start, end in zip(offsets[:-1], offsets[1:]):
            file.write(" ".join(map(str, ids[start:end])) + "\n")


def _installed(python):
    """Whether an environment's Python has the versions wanted."""
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


def _base_python():
    """A Python that the environment can be made with."""
    if sys.version_info[:2] <= _NEWEST_PYTHON:
        return sys.executable
    name = "python" + ".".join(map(str, _NEWEST_PYTHON))
    if python := shutil.which(name):
        return python
    raise RuntimeError(
        f"{NAME} needs {name}, which is not on the path. Install it, or make "
        "the environment elsewhere and pass `--peer-environment`."
    )


def _run(command):
    command = [str(part) for part in command]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError(
            f"`{' '.join(command)}` failed:\n{answer.stderr[-2000:]}"
        )
