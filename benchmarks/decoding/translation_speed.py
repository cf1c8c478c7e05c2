"""How fast the package translates, beside other engines, on one CPU.

The program translates a text with a trained model: with the package, with its
SavedModel, with CTranslate2 in float32 and int8, called directly and as the
package's engine, and, with `--peer
opennmt-tf`, with OpenNMT-tf; all with the same weights. From the root of a
checkout, with the package and its extra `ctranslate2` installed:

    python -m benchmarks.decoding.translation_speed MODEL \\
        --source test.en --peer opennmt-tf

For the peer the model must have relative positions, one table per layer, and
normalize first. The peer gets its own virtual environment on first use (Python
3.11 or older).

Every engine is a separate process; they take turns, a whole text each, and
what is compared was measured in the same round. Sentences come sorted by
length, longest first, in batches of 1 (the first `--single` alone), 32, and
whatever else `--batch-sizes` says. The package, its SavedModel and CTranslate2
take and give strings, OpenNMT-tf ids. Peak memory is the largest resident set
of the process, as the system counts it, over everything it was asked for.
"""

import argparse
import functools
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import relative_attention as ra
from benchmarks.decoding.translation_engine import command as engine_of
from benchmarks.harness import opennmt_tf
from benchmarks.harness.command import absolute_model
from benchmarks.harness.command import add_model
from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import read_sentences
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import round_robin
from benchmarks.harness.engine import running_engines
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import ratios
from benchmarks.speed_tables import translation_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

OURS = "relative-attention"
SAVED_MODEL = "its SavedModel"
# What calls CTranslate2 directly, and what goes through the package, by dtype.
DIRECT = "CTranslate2, {}"
ENGINE = "--engine ctranslate2, {}"

_LENGTH_PENALTY = 0.6
# OpenNMT-tf's ids of the end of sentence and of the token that starts
# translations are each the other's here.
_OPENNMT_TF_IDS = {1: 2, 2: 1}
_OPENNMT_TF_END = 2

# An engine, a number of beams and a batch size.
Case = tuple[str, int, int]
Turn = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_model(parser)
    parser.add_argument("--source", metavar="FILE", required=True)
    add_numbers(parser, batch_sizes=[1, 32, 256], beams=[1, 4])
    # How many are translated, and how many one by one.
    add_numbers(parser, sentences=1000, single=50)
    add_numbers(parser, rounds=3, threads=os.cpu_count())
    opennmt_tf.add_peer_arguments(parser)


def measure(options: argparse.Namespace) -> list[Row]:
    """Lets all engines translate the text, in turns."""
    lines = read_sentences(options.source, options.sentences)
    if importlib.util.find_spec("ctranslate2") is None:
        raise ra.InputError(
            "The package ctranslate2 is missing. Install the extra "
            "`ctranslate2`."
        )
    peer_python = None
    if options.peer:
        peer_python = opennmt_tf.prepare_environment(options.peer_environment)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # What needs TensorFlow is done in a process that ends.
        commands = in_fresh_process(
            prepare_engines, options, lines, peer_python, folder
        )
        turns, memory = _take_turns(commands, len(lines), options, folder)
    return _rows(turns, memory)


def _take_turns(
    commands: Mapping[str, Sequence[str]],
    num_lines: int,
    options: argparse.Namespace,
    folder: pathlib.Path,
) -> tuple[dict[Case, list[Turn]], dict[str, int]]:
    """Returns the turns of each case, and the peak memory of each engine."""
    cases = [
        (name, beams, size)
        for beams in options.beams
        for size in options.batch_sizes
        for name in commands
    ]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    with running_engines(commands, folder, environment) as engines:

        def turn(case: Case) -> Turn:
            name, beams, size = case
            count = min(options.single, num_lines) if size == 1 else num_lines
            order = {
                "num_beams": beams,
                "batch_size": size,
                "num_sentences": count,
            }
            found = engines[name].take_turn(json.dumps(order))
            speed = count / sum(found["seconds"])
            return {**found, "speed": speed, "sentences": count}

        turns = round_robin(cases, turn, options.rounds)
        memory = {name: engine.finish() for name, engine in engines.items()}
    return turns, memory


def _rows(
    turns: Mapping[Case, Sequence[Turn]],
    memory: Mapping[str, int],
) -> list[Row]:
    """Returns a row for each case."""
    base = opennmt_tf.NAME if opennmt_tf.NAME in memory else OURS
    rows = []
    for (name, beams, size), found in turns.items():
        speeds = [turn["speed"] for turn in found]
        others = [turn["speed"] for turn in turns[base, beams, size]]
        rows.append(
            {
                "engine": name,
                "num_beams": beams,
                "batch_size": size,
                "sentences_per_second": speeds,
                "base": base,
                "ratio_to_base": ratios(speeds, others),
                "peak_memory_bytes": memory[name],
                "sentences": found[0]["sentences"],
                "same_as_ours": _count_same(
                    found[0], turns[OURS, beams, size][0]
                ),
            }
        )
    return rows


def _count_same(turn: Turn, ours: Turn) -> int | None:
    """Returns how many translations are those of the package, if known."""
    if "translations" not in turn:
        return None
    return sum(map(str.__eq__, turn["translations"], ours["translations"]))


def describe(result: Result) -> str:
    """Returns the table of the page, and which translations are the same."""
    same = [
        f"beam {row['num_beams']}, batch {row['batch_size']}: "
        f"{row['same_as_ours']:,} of {row['sentences']:,} translations of "
        f"{row['engine']} are those of {OURS}."
        for row in result.rows
        if row["same_as_ours"] is not None and row["engine"] != OURS
    ]
    return "\n".join([f"{translation_table(result)}\n", *same])


# === Engines ===


def prepare_engines(
    options: argparse.Namespace,
    lines: Sequence[str],
    peer_python: str | None,
    folder: pathlib.Path,
) -> dict[str, list[str]]:
    """Exports a model for every engine, and writes the text, longest first.

    Returns:
        The command lines by the names of engines.
    """
    load_tensorflow_quietly()
    translator = ra.load_translator(
        options.model, length_penalty=_LENGTH_PENALTY
    )
    encoded = translator.source_vocabulary.encode(list(lines))
    order = sorted(range(len(lines)), key=lambda i: -len(encoded[i]))
    sentences = folder / "sentences.json"
    sentences.write_text(json.dumps([lines[i] for i in order]))
    ours = functools.partial(
        engine_of,
        "package",
        sentences,
        folder=absolute_model(options.model),
        length_penalty=_LENGTH_PENALTY,
        # A batch is what the order says it is.
        batch_tokens=sys.maxsize,
    )
    exported = folder / "saved_model"
    for num_beams in options.beams:
        translator.num_beams = num_beams
        ra.export_saved_model(translator, f"{exported}_{num_beams}")
    commands = {
        OURS: ours(),
        SAVED_MODEL: engine_of("saved_model", sentences, folder=str(exported)),
    }
    for dtype in ("float32", "int8"):
        exported = folder / dtype
        ra.export_ctranslate2(translator, exported, dtype)
        commands[DIRECT.format(dtype)] = engine_of(
            "ctranslate2",
            sentences,
            folder=str(exported),
            num_threads=options.threads,
        )
        commands[ENGINE.format(dtype)] = ours(
            engine="ctranslate2", dtype=dtype, threads=options.threads
        )
    if peer_python is not None:
        rows = [
            [*(_OPENNMT_TF_IDS.get(t, t) for t in encoded[i]), _OPENNMT_TF_END]
            for i in order
        ]
        ids = folder / "ids.json"
        ids.write_text(json.dumps(rows))
        commands[opennmt_tf.NAME] = opennmt_tf.opennmt_tf_command(
            peer_python,
            "translate",
            sizes=opennmt_tf.sizes_of(translator.model.config),
            weights=_write_peer_model(translator.model, folder / "opennmt_tf"),
            sentences=str(ids),
            length_penalty=_LENGTH_PENALTY,
        )
    return commands


def _write_peer_model(model: "ra.Transformer", folder: pathlib.Path) -> str:
    """Returns the path of a model's weights, beside the vocabulary."""
    import numpy as np

    from relative_attention.convert.opennmt_tf import SOURCE_EMBEDDING
    from relative_attention.convert.opennmt_tf import opennmt_tf_weights

    arrays: dict[str, Any] = {
        path: np.reshape(weight.variable, weight.shape)
        for path, weight in opennmt_tf_weights(model).items()
    }
    rows = arrays[SOURCE_EMBEDDING]
    # There the end of sentence is 2, and 1 starts translations: with the zero
    # vector, as here. The last row is that of unknown words.
    rows = rows[[0, 2, 1, *range(3, len(rows))]]
    rows[1] = 0
    arrays[SOURCE_EMBEDDING] = np.concatenate([rows, 0 * rows[:1]])
    folder.mkdir()
    np.savez(folder / "weights.npz", **arrays)
    opennmt_tf.write_vocabulary(
        folder / "vocabulary", model.config.vocabulary_size
    )
    return str(folder / "weights.npz")


main = benchmark(
    "decoding.translation_speed",
    __doc__,
    "runs/mine --source test.en --peer opennmt-tf",
    add_arguments,
    measure,
    describe,
    ["ctranslate2"],
    lambda options: "float32, of CTranslate2 int8 too",
)

if __name__ == "__main__":
    main()
