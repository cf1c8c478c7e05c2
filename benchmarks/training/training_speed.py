"""How fast the package trains, and in how much memory, on one CPU.

The program trains `transformer_small_relative` and the same with sinusoidal
positions, both in float32 and in mixed_bfloat16, and OpenNMT-tf with the same
relative model: hidden 256, feed-forward 1,024, 3 + 3 layers, 4 heads, K = 16,
dropout 0.1, a joint vocabulary of 8,000 pieces, 2,048 tokens a batch. From the
root of a checkout, with the package installed:

    python -m benchmarks.training.training_speed --data DIR --peer opennmt-tf

`DIR` holds `train.en` and `train.de`, plain or `.gz`. OpenNMT-tf gets a
separate virtual environment, made on first use (Python 3.11 or older);
without `--peer` there is nothing to install and no ratio to it.

Every run of a model is an engine, a separate process; together they take
about 8 GB. In each of `--repeats` they are restarted, train `--warmup`
steps that are not counted, and then train in turns, `--window` steps each,
until each has counted `--steps`. On a shared machine a minute is not like the
next: ratios are taken between windows of the same round, and the median over
all windows is shown with the least and the greatest. Tokens are source and
target tokens with their ends of sentences and without padding. Peak memory is
the largest resident set of the process, as the system counts it.
"""

import argparse
import collections
import pathlib
import statistics
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import relative_attention as ra
from benchmarks.harness import opennmt_tf
from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import engine_command
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import round_robin
from benchmarks.harness.engine import running_engines
from benchmarks.harness.results import Row
from benchmarks.harness.results import ratios
from benchmarks.speed_tables import training_table
from benchmarks.training.workload import add_data_argument
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import prepare_corpus

Turn = dict[str, Any]
_PRECISIONS = ("float32", "mixed_bfloat16")
_PRESETS = {
    "relative": "transformer_small_relative",
    "sinusoidal": "transformer_small",
}
PEER = f"{opennmt_tf.NAME}, relative, float32"

# OpenNMT-tf excludes the first two steps from its own figures.
_SHORTEST_WINDOW = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_data_argument(parser)
    add_numbers(parser, vocabulary_size=8000, batch_tokens=2048)
    parser.add_argument(
        "--precisions", nargs="+", choices=_PRECISIONS, default=_PRECISIONS
    )
    opennmt_tf.add_peer_arguments(parser)
    # Starts of all engines, and steps: of a turn, and in all of a start.
    add_numbers(parser, repeats=3, window=20, warmup=60, steps=100)


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains all engines, in turns."""
    for name in ("warmup", "steps"):
        value = getattr(options, name)
        if value % options.window or options.window < _SHORTEST_WINDOW:
            raise ra.InputError(
                f"--{name} must be a multiple of --window, which is "
                f"{_SHORTEST_WINDOW} or more. Received: {value} and "
                f"{options.window}."
            )
    corpus = find_corpus(options.data)
    python = None
    if options.peer:
        python = opennmt_tf.prepare_environment(options.peer_environment)
    turns: dict[str, list[Turn]] = collections.defaultdict(list)
    memory: dict[str, list[int]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, tokens = prepare_corpus(corpus, options.vocabulary_size, folder)
        for repeat in range(options.repeats):
            commands = _our_engines(corpus, options, folder, repeat)
            if python:
                config = opennmt_tf.write_training_files(
                    options.vocabulary_size,
                    tokens,
                    options.batch_tokens,
                    options.window,
                    folder / f"opennmt_tf_{repeat}",
                )
                commands[PEER] = opennmt_tf.opennmt_tf_command(
                    python,
                    "train",
                    sizes=in_fresh_process(_peer_sizes),
                    config=config,
                )
            title = f"repeat {repeat + 1} of {options.repeats}, "
            with running_engines(
                commands, folder, opennmt_tf.ENVIRONMENT
            ) as engines:
                found = round_robin(
                    list(engines),
                    lambda name: engines[name].take_turn(),
                    options.steps // options.window,
                    options.warmup // options.window,
                    title,
                )
                for name, engine in engines.items():
                    turns[name] += found[name]
                    memory[name].append(engine.finish())
    return _rows(turns, memory)


def _peer_sizes() -> dict[str, Any]:
    # In a process of its own, as this loads TensorFlow.
    from relative_attention.models import preset_config

    config = preset_config(_PRESETS["relative"], vocabulary_size=1)
    return opennmt_tf.sizes_of(config)


def _our_engines(
    corpus: "ra.ParallelCorpus",
    options: argparse.Namespace,
    folder: pathlib.Path,
    seed: int,
) -> dict[str, list[str]]:
    """Returns the command line of each engine of ours, by its name."""
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


def _rows(
    turns: Mapping[str, Sequence[Turn]], memory: Mapping[str, Sequence[int]]
) -> list[Row]:
    """Returns a row for each engine."""
    speeds = {
        name: [turn["tokens"] / turn["seconds"] for turn in found]
        for name, found in turns.items()
    }
    return [
        {
            "engine": name,
            "steps_per_second": [
                turn["steps"] / turn["seconds"] for turn in found
            ],
            "tokens_per_second": speeds[name],
            "ratio_to_peer": ratios(speeds[name], speeds[PEER])
            if PEER in speeds
            else None,
            "peak_memory_bytes": statistics.median(memory[name]),
        }
        for name, found in turns.items()
    ]


main = benchmark(
    "training.training_speed",
    __doc__,
    "--data data/multi30k --peer opennmt-tf",
    add_arguments,
    measure,
    training_table,
    precision=lambda options: " and ".join(options.precisions),
)

if __name__ == "__main__":
    main()
