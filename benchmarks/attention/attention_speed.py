"""What relative positions cost an attention layer, in time and in memory.

The program times each way to compute `RelativeSelfAttention`, the layer
without relative positions, and `keras.layers.MultiHeadAttention`, over
lengths and clipping distances, and prints and stores the ratios. From the root
of a checkout, with the package installed (and its extra `plot` for `--plot`):

    python -m benchmarks.attention.attention_speed

Each layer is an engine, a process of its own; those of a length and distance
live at once and take turns, and a ratio is that of turns of the same round. A
turn calls the forward pass, and then forward and backward pass (gradients of
the inputs and of every weight, as one compiled function), as often as goes
into `--seconds`, at least once. The table shows both: relations weigh more in
the forward pass alone, that of inference. Peak memory is what the largest
resident set of the process is above that before the first pass, as the system
counts it.

With `KERAS_BACKEND=jax` it runs on the first device of JAX; memory of a GPU
is not counted.
"""

import argparse
import pathlib
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from benchmarks.attention.layer_kinds import ENGINE_NAMES
from benchmarks.attention.layer_kinds import KERAS
from benchmarks.attention.layer_kinds import PLAIN
from benchmarks.attention.layer_kinds import TRANSPOSE
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_float
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.engine import engine_command
from benchmarks.harness.engine import running_engines
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.round_robin import round_robin
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table

# What the others are compared with, where it is measured.
_BASES = (KERAS, PLAIN, TRANSPOSE)


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser(
        "attention.attention_speed",
        __doc__,
        "--lengths 64 512 --distances 16",
    )
    add = parser.add_argument
    lengths = [32, 64, 128, 256, 512, 1024, 2048, 4096]
    add("--lengths", type=positive_int, nargs="+", default=lengths)
    add(
        "--distances",
        type=positive_int,
        nargs="+",
        default=[8, 16, 64],
        metavar="K",
    )
    implementations = [TRANSPOSE, "blocks", "auto"]
    add(
        "--implementations",
        nargs="+",
        default=implementations,
        choices=implementations,
    )
    add(
        "--longest-transpose",
        type=positive_int,
        default=2048,
        metavar="T",
        help='lengths beyond are left out for "transpose", which at 4,096 '
        "takes 20 GB (default: 2048)",
    )
    add("--batch-tokens", type=positive_int, default=2048)
    add("--num-heads", type=positive_int, default=8)
    add("--key-dim", type=positive_int, default=64)
    add("--dtype", default="float32")
    add("--rounds", type=positive_int, default=5)
    add("--seconds", type=positive_float, default=0.5)
    add(
        "--plot",
        metavar="FILE.png",
        type=pathlib.Path,
        help="also draw the ratios by length",
    )
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Measures all engines at all lengths and clipping distances.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each engine, length and clipping distance.
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for length in options.lengths:
            for distance in options.distances:
                rows += _measure_case(
                    length, distance, options, pathlib.Path(folder)
                )
    return rows


def _measure_case(
    length: int,
    distance: int,
    options: argparse.Namespace,
    folder: pathlib.Path,
) -> list[Row]:
    """Measures all engines at one length and one clipping distance."""
    kinds = [KERAS, PLAIN]
    for kind in options.implementations:
        if kind != TRANSPOSE or length <= options.longest_transpose:
            kinds.append(kind)
    arguments = {
        "batch_size": max(1, options.batch_tokens // length),
        "length": length,
        "num_heads": options.num_heads,
        "key_dim": options.key_dim,
        "max_relative_position": distance,
        "dtype": options.dtype,
        "seconds": options.seconds,
    }
    module = "benchmarks.attention.attention_engine"
    commands = {
        kind: engine_command(module, {"kind": kind, **arguments})
        for kind in kinds
    }
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    with running_engines(commands, folder, environment) as engines:
        turns = round_robin(
            kinds,
            lambda kind: engines[kind].take_turn(),
            options.rounds,
            title=f"length {length}, K {distance}, ",
        )
        memory = {
            kind: engines[kind].finish() - turns[kind][0]["memory_before"]
            for kind in kinds
        }
    return [
        {
            "tokens": length,
            "max_relative_position": distance,
            "engine": kind,
            **_figures(turns, memory, kind),
        }
        for kind in kinds
    ]


def _figures(
    turns: Mapping[str, Sequence[Mapping[str, Any]]],
    memory: Mapping[str, int],
    kind: str,
) -> Row:
    """Returns medians of times, peak memory, and the ratios to each base."""
    bases = [base for base in _BASES if base in turns]

    def over(name: str) -> dict[str, list[float]]:
        values = {key: [t[name] for t in turns[key]] for key in (kind, *bases)}
        return {base: ratios(values[kind], values[base]) for base in bases}

    return {
        "forward_ms": median([turn["forward_ms"] for turn in turns[kind]]),
        "backward_ms": median([turn["backward_ms"] for turn in turns[kind]]),
        "peak_memory_bytes": memory[kind],
        "forward_over": over("forward_ms"),
        "backward_over": over("backward_ms"),
        # A layer so small that it needs no new memory has no ratio to it.
        "memory_over": {
            base: memory[kind] / memory[base] if memory[base] else None
            for base in bases
        },
    }


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""
    compared = [
        "ratio to Keras'",
        "to no relative positions",
        'to "transpose"',
    ]
    header = [
        "layer",
        "forward alone",
        *compared,
        "forward + backward",
        *compared,
        "peak memory",
        "to no relative positions",
    ]
    table = markdown_table(header, [_cells(row) for row in result.rows])
    options = result.options
    return (
        f"{table}\n\n"
        f"Hidden {options['num_heads'] * options['key_dim']}, "
        f"{options['num_heads']} heads, {options['batch_tokens']:,} tokens a "
        f"batch (at least one sentence), {options['dtype']}; median of "
        f"{options['rounds']} rounds (least to greatest)."
    )


def _cells(row: Row) -> list[str]:
    """Returns the cells of a row of the table."""
    forward, backward = (
        [
            spread(row[name][base]) if base in row[name] else ""
            for base in _BASES
        ]
        for name in ("forward_over", "backward_over")
    )
    return [
        f"T {row['tokens']:,}, K {row['max_relative_position']}: "
        + ENGINE_NAMES[row["engine"]],
        f"{row['forward_ms']:,.1f} ms",
        *forward,
        f"{row['backward_ms']:,.1f} ms",
        *backward,
        f"{row['peak_memory_bytes'] / 1e6:,.0f} MB",
        _memory_ratio(row["memory_over"][PLAIN]),
    ]


def _memory_ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    result = run_benchmark(
        parser,
        options,
        arguments,
        measure,
        describe,
        precision=options.dtype,
    )
    if options.plot:
        from benchmarks.attention.attention_figure import draw_ratios

        draw_ratios(result.rows, options.plot)


if __name__ == "__main__":
    main()
