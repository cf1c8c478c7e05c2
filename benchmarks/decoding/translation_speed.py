"""How fast the package translates, beside other engines, on one CPU.

The program translates a text with a trained model: with the package, with its
SavedModel, with CTranslate2 in float32 and int8, called directly and as the
package's engine, and, with `--peer
opennmt-tf`, with OpenNMT-tf; all with the same weights. From the root of a
checkout, with the package and its extra `ctranslate2` installed:

    python -m benchmarks.decoding.translation_speed MODEL \\
        --source test.en --peer opennmt-tf

The model must have the architecture of `transformer_small_relative` for the
peer, which gets its own virtual environment on first use (Python 3.11 or
older).

Every engine is a separate process; they take turns, a whole text each, and
what is compared was measured in the same round. Sentences come sorted by
length, longest first, in batches of 1 (the first `--single` alone), 32, and
whatever else `--batch-sizes` says. The package, its SavedModel and CTranslate2
take and give strings, OpenNMT-tf ids. Peak memory is the largest resident set
of the process, as the system counts it, over everything it was asked for.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from benchmarks.decoding.prepared_engines import DIRECT
from benchmarks.decoding.prepared_engines import ENGINE
from benchmarks.decoding.prepared_engines import OURS
from benchmarks.decoding.prepared_engines import PreparedEngines
from benchmarks.decoding.prepared_engines import check_peer_architecture
from benchmarks.decoding.prepared_engines import prepare_engines
from benchmarks.decoding.prepared_engines import read_sentences
from benchmarks.harness import opennmt_tf
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import running_engines
from benchmarks.harness.fresh_process import in_fresh_process
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.round_robin import round_robin
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table
from relative_attention.errors import InputError

# An engine, a number of beams and a batch size.
Case = tuple[str, int, int]
Turn = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add("model", help="a model directory, or a name of the zoo")
    add("--source", metavar="FILE", required=True)
    add("--sentences", type=positive_int, default=1000)
    add(
        "--single",
        type=positive_int,
        default=50,
        help="sentences that are translated one by one (default: 50)",
    )
    sizes = [1, 32, 256]
    add("--batch-sizes", type=positive_int, nargs="+", default=sizes)
    add("--beams", type=positive_int, nargs="+", default=[1, 4])
    add("--rounds", type=positive_int, default=3)
    add("--threads", type=positive_int, default=os.cpu_count())
    opennmt_tf.add_peer_arguments(parser)


def measure(options: argparse.Namespace) -> list[Row]:
    """Lets all engines translate the text, in turns."""
    lines = read_sentences(options.source, options.sentences)
    if importlib.util.find_spec("ctranslate2") is None:
        raise InputError(
            "The package ctranslate2 is missing. Install the extra "
            "`ctranslate2`."
        )
    peer_python = None
    if options.peer:
        # What needs TensorFlow is done in a process that ends.
        in_fresh_process(check_peer_architecture, options.model)
        peer_python = opennmt_tf.prepare_environment(options.peer_environment)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepared = in_fresh_process(
            prepare_engines,
            options.model,
            lines,
            options.beams,
            options.threads,
            peer_python,
            folder,
        )
        turns, memory = _take_turns(prepared, len(lines), options, folder)
    return _rows(turns, memory, prepared.mean_tokens)


def _take_turns(
    prepared: PreparedEngines,
    num_lines: int,
    options: argparse.Namespace,
    folder: pathlib.Path,
) -> tuple[dict[Case, list[Turn]], dict[str, int]]:
    """Returns the turns of each case, and the peak memory of each engine."""
    cases = [
        (name, beams, size)
        for beams in options.beams
        for size in options.batch_sizes
        for name in prepared.commands
    ]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    with running_engines(prepared.commands, folder, environment) as engines:

        def turn(case: Case) -> Turn:
            name, beams, size = case
            count = min(options.single, num_lines) if size == 1 else num_lines
            order = {
                "num_beams": beams,
                "batch_size": size,
                "num_sentences": count,
            }
            found = engines[name].take_turn(json.dumps(order))
            speed = count / found["seconds"]
            return {**found, "speed": speed, "sentences": count}

        turns = round_robin(cases, turn, options.rounds)
        memory = {name: engine.finish() for name, engine in engines.items()}
    return turns, memory


def _rows(
    turns: Mapping[Case, Sequence[Turn]],
    memory: Mapping[str, int],
    mean_tokens: float,
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
                "output_tokens_per_second": median(speeds) * mean_tokens,
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
    """Returns the table of all rows, and which translations are the same."""
    cells = [
        [
            f"beam {row['num_beams']}, batch {row['batch_size']}: "
            + row["engine"],
            spread(median(row["sentences_per_second"]), digits=1),
            f"{row['output_tokens_per_second']:,.0f}",
            spread(row["ratio_to_base"]),
            f"{row['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for row in result.rows
    ]
    header = [
        "engine",
        "sentences/s",
        "output tokens/s",
        f"ratio to {result.rows[0]['base']}",
        "peak memory",
    ]
    same = [
        f"beam {row['num_beams']}, batch {row['batch_size']}: "
        f"{row['same_as_ours']:,} of {row['sentences']:,} translations of "
        f"{row['engine']} are those of {OURS}."
        for row in result.rows
        if row["same_as_ours"] is not None
        and row["batch_size"] > 1
        and row["engine"] != OURS
    ]
    options = result.options
    return "\n".join(
        [
            markdown_table(header, cells),
            "",
            *same,
            *_engine_lines(result),
            f"Median of {options['rounds']} rounds, "
            f"{max(row['sentences'] for row in result.rows):,} sentences "
            f"({options['single']} one by one).",
        ]
    )


def _engine_lines(result: Result) -> list[str]:
    """Compares the package's engine with direct calls, in the same round."""
    speeds = {
        (row["engine"], row["num_beams"], row["batch_size"]): row[
            "sentences_per_second"
        ]
        for row in result.rows
    }
    lines = []
    for (name, beams, size), direct in speeds.items():
        dtype = name.removeprefix(DIRECT.format(""))
        ours = speeds.get((ENGINE.format(dtype), beams, size))
        if ours is not None and dtype != name:
            lines.append(
                f"beam {beams}, batch {size}, {dtype}: --engine ctranslate2 "
                f"takes {spread(ratios(direct, ours))} of the time of direct "
                "calls."
            )
    return lines


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
