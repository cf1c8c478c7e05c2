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

from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import running_engines
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.round_robin import round_robin
from benchmarks.harness.spread import ratios
from benchmarks.speed_tables import training_table
from benchmarks.training.training_engines import ENVIRONMENT
from benchmarks.training.training_engines import PEER
from benchmarks.training.training_engines import add_engine_arguments
from benchmarks.training.training_engines import our_engines
from benchmarks.training.training_engines import peer_engine
from benchmarks.training.training_engines import prepare_peer
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import prepare_corpus
from relative_attention.errors import InputError

Turn = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add_engine_arguments(parser, window=20)
    add("--repeats", type=positive_int, default=3, help="starts of all engines")
    add("--warmup", type=positive_int, default=60, metavar="STEPS")
    add(
        "--steps",
        type=positive_int,
        default=100,
        help="counted steps of a repeat",
    )


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains all engines, in turns."""
    for name in ("warmup", "steps"):
        value = getattr(options, name)
        if value % options.window:
            raise InputError(
                f"--{name} must be a multiple of --window "
                f"({options.window}). Received: {value}."
            )
    corpus = find_corpus(options.data)
    peer_python = prepare_peer(options)
    turns: dict[str, list[Turn]] = collections.defaultdict(list)
    memory: dict[str, list[int]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, tokens = prepare_corpus(corpus, options.vocabulary_size, folder)
        for repeat in range(options.repeats):
            commands = our_engines(corpus, options, folder, repeat)
            if peer_python:
                commands[PEER] = peer_engine(
                    tokens, options, folder, repeat, peer_python
                )
            _train_in_turns(commands, options, folder, turns, memory)
            _print_speeds(turns, repeat, options.repeats)
    return _rows(turns, memory)


def _train_in_turns(
    commands: Mapping[str, Sequence[str]],
    options: argparse.Namespace,
    folder: pathlib.Path,
    turns: dict[str, list[Turn]],
    memory: dict[str, list[int]],
) -> None:
    """Starts all engines and adds what they do in a repeat."""
    with running_engines(commands, folder, ENVIRONMENT) as engines:
        found = round_robin(
            list(engines),
            lambda name: engines[name].take_turn(),
            options.steps // options.window,
            options.warmup // options.window,
        )
        for name, engine in engines.items():
            turns[name] += found[name]
            memory[name].append(engine.finish())


def _tokens_per_second(turns: Sequence[Turn]) -> list[float]:
    return [turn["tokens"] / turn["seconds"] for turn in turns]


def _print_speeds(
    turns: Mapping[str, Sequence[Turn]], repeat: int, repeats: int
) -> None:
    """Prints what is known after a repeat, each of which takes minutes."""
    speeds = ", ".join(
        f"{name} {statistics.median(_tokens_per_second(found)):,.0f}"
        for name, found in turns.items()
    )
    print(
        f"Repeat {repeat + 1} of {repeats}, tokens/s so far: {speeds}",
        flush=True,
    )


def _rows(
    turns: Mapping[str, Sequence[Turn]], memory: Mapping[str, Sequence[int]]
) -> list[Row]:
    """Returns a row for each engine."""
    speeds = {name: _tokens_per_second(found) for name, found in turns.items()}
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


def describe(result: Result) -> str:
    """Returns the table of engines."""
    options = result.options
    return (
        f"{training_table(result)}\n\n"
        f"Median (least to greatest) of {options['repeats']} x "
        f"{options['steps'] // options['window']} windows of "
        f"{options['window']} steps, after {options['warmup']} steps."
    )


main = benchmark(
    "training.training_speed",
    __doc__,
    "--data data/multi30k --peer opennmt-tf",
    add_arguments,
    measure,
    describe,
    precision=lambda options: " and ".join(options.precisions),
)

if __name__ == "__main__":
    main()
