"""The engines of `translation_speed`, made of one trained model."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import relative_attention as ra
from benchmarks.harness import opennmt_tf
from benchmarks.harness.engine import engine_command
from benchmarks.harness.opennmt_tf import write_vocabulary
from relative_attention.data.lines import read_lines
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

OURS = "relative-attention"
SAVED_MODEL = "its SavedModel"
# What calls CTranslate2 directly, and what goes through the package, by dtype.
DIRECT = "CTranslate2, {}"
ENGINE = "--engine ctranslate2, {}"

_LENGTH_PENALTY = 0.6
_PEER_PRESET = "transformer_small_relative"
# What the weights of a model do not depend on.
_ANY_VALUE = (
    "vocabulary_size",
    "dropout",
    "attention_dropout",
    "intermediate_dropout",
    "implementation",
    "max_length",
)
# OpenNMT-tf's ids of the end of sentence and of the token that starts
# translations are each the other's here.
_OPENNMT_TF_IDS = {1: 2, 2: 1}
_OPENNMT_TF_END = 2


@dataclasses.dataclass(frozen=True)
class PreparedEngines:
    """Engines that are ready to be started.

    Attributes:
        commands: A dict of command lines by the names of engines.
        mean_tokens: A float, the tokens of the package's translation of a
            sentence.
    """

    commands: dict[str, list[str]]
    mean_tokens: float


def check_peer_architecture(model: str) -> None:
    """Checks that the peer has a model of this architecture.

    Args:
        model: The path of a model directory, or a name of the zoo.

    Raises:
        InputError: If it differs in any size, or there is no such model.
    """
    load_tensorflow_quietly()
    config = dataclasses.asdict(ra.load_translator(model).model.config)
    preset = ra.Transformer.from_preset(_PEER_PRESET, vocabulary_size=1)
    expected = dataclasses.asdict(preset.config)
    differing = [
        f"{name}={config[name]!r} instead of {value!r}"
        for name, value in expected.items()
        if name not in _ANY_VALUE and config[name] != value
    ]
    if differing:
        raise ra.InputError(
            f"With `--peer`, the model must have the architecture of "
            f"{_PEER_PRESET}. Received: {model} with {', '.join(differing)}. "
            "Leave `--peer` out, or give another model."
        )


def prepare_engines(
    model: str,
    lines: Sequence[str],
    beams: Sequence[int],
    num_threads: int,
    peer_python: str | None,
    folder: pathlib.Path,
) -> PreparedEngines:
    """Exports a model for every engine, and writes the text, longest first.

    Args:
        model: The path of a model directory, or a name of the zoo.
        lines: A sequence of strings, the text.
        beams: A sequence of integers, the numbers of beams to search with.
        num_threads: An integer, for CTranslate2.
        peer_python: The path of OpenNMT-tf's Python, or `None`.
        folder: The path of a folder for what is written.

    Returns:
        `PreparedEngines`.
    """
    load_tensorflow_quietly()
    translator = ra.load_translator(model, length_penalty=_LENGTH_PENALTY)
    encoded = translator.source_vocabulary.encode(list(lines))
    order = sorted(range(len(lines)), key=lambda i: -len(encoded[i]))
    sentences = folder / "sentences.json"
    sentences.write_text(json.dumps([lines[i] for i in order]))
    found = translator.search(lines)
    num_tokens = sum(len(translation.token_ids) for translation in found)
    commands = _own_commands(translator, model, beams, sentences, folder)
    commands |= _ctranslate2_commands(
        translator, model, num_threads, sentences, folder
    )
    if peer_python is not None:
        rows = [encoded[i] for i in order]
        commands[opennmt_tf.NAME] = _peer_command(
            translator, rows, peer_python, folder
        )
    return PreparedEngines(commands, num_tokens / len(found))


def read_sentences(path: str, count: int) -> list[str]:
    """Returns the first lines of a text.

    Raises:
        InputError: If the file cannot be read or is empty.
    """
    lines = list(read_lines(path))[:count]
    if not lines:
        raise ra.InputError(f"There is no line in {path}.")
    return lines


def _own_commands(
    translator: "ra.Translator",
    model: str,
    beams: Sequence[int],
    sentences: pathlib.Path,
    folder: pathlib.Path,
) -> dict[str, list[str]]:
    """Returns the commands of the package and of its SavedModel."""
    exported = folder / "saved_model"
    for num_beams in beams:
        translator.num_beams = num_beams
        ra.export_saved_model(translator, f"{exported}_{num_beams}")
    return {
        OURS: _command("package", sentences, folder=_absolute(model)),
        SAVED_MODEL: _command("saved_model", sentences, folder=str(exported)),
    }


def _absolute(model: str) -> str:
    """Returns a path that an engine, which starts elsewhere, finds.

    A name of the zoo is no path.
    """
    path = pathlib.Path(model)
    return str(path.resolve()) if path.exists() else model


def _ctranslate2_commands(
    translator: "ra.Translator",
    model: str,
    num_threads: int,
    sentences: pathlib.Path,
    folder: pathlib.Path,
) -> dict[str, list[str]]:
    """Returns the commands of CTranslate2 in float32 and in int8.

    Each is called directly, and as the engine of the package.
    """
    commands = {}
    for quantization in ("float32", "int8"):
        exported = folder / quantization
        ra.export_ctranslate2(translator, exported, quantization)
        commands[DIRECT.format(quantization)] = _command(
            "ctranslate2",
            sentences,
            folder=str(exported),
            num_threads=num_threads,
        )
        commands[ENGINE.format(quantization)] = _command(
            "package",
            sentences,
            folder=_absolute(model),
            engine="ctranslate2",
            dtype=quantization,
            threads=num_threads,
        )
    return commands


def _command(
    maker: str, sentences: pathlib.Path, **arguments: str | int
) -> list[str]:
    """Returns the command of an engine that runs with this Python.

    `maker` is a key of `translation_engine`'s table.
    """
    content = {
        "maker": maker,
        "arguments": arguments,
        "sentences": str(sentences),
    }
    return engine_command("benchmarks.decoding.translation_engine", content)


def _peer_command(
    translator: "ra.Translator",
    rows: Sequence[Sequence[int]],
    peer_python: str,
    folder: pathlib.Path,
) -> list[str]:
    """Returns the command of OpenNMT-tf, which takes ids."""
    ids = folder / "ids.json"
    ids.write_text(
        json.dumps(
            [
                [*(_OPENNMT_TF_IDS.get(t, t) for t in row), _OPENNMT_TF_END]
                for row in rows
            ]
        )
    )
    arguments = {
        "weights": _write_peer_model(translator.model, folder / "opennmt_tf"),
        "sentences": str(ids),
        "length_penalty": _LENGTH_PENALTY,
    }
    module = "benchmarks.decoding.opennmt_tf_engine"
    return engine_command(module, arguments, peer_python)


def _write_peer_model(model: "ra.Transformer", folder: pathlib.Path) -> str:
    """Writes a trained model for `opennmt_tf_engine`.

    Args:
        model: A `Transformer` of the architecture of
            `transformer_small_relative`, all embeddings shared.
        folder: The path of a folder to make.

    Returns:
        The path of the weights, a string; the vocabulary lies beside it.
    """
    import numpy as np

    from relative_attention.convert.opennmt_tf import SOURCE_EMBEDDING
    from relative_attention.convert.opennmt_tf import stored_weights

    arrays: dict[str, Any] = {
        path: np.reshape(weight.variable, weight.shape)
        for path, weight in stored_weights(model).items()
    }
    rows = arrays[SOURCE_EMBEDDING]
    # There the end of sentence is 2, and 1 starts translations: with the zero
    # vector, as here. The last row is that of unknown words.
    rows = rows[[0, 2, 1, *range(3, len(rows))]]
    rows[1] = 0
    arrays[SOURCE_EMBEDDING] = np.concatenate([rows, 0 * rows[:1]])
    folder.mkdir()
    np.savez(folder / "weights.npz", **arrays)
    write_vocabulary(folder / "vocabulary", model.config.vocabulary_size)
    return str(folder / "weights.npz")
