"""Where the time goes that relative positions cost an attention layer.

The program runs forward and backward pass of `RelativeSelfAttention`, with
relations and without, in a graph for any length, with TensorFlow's profiler
on, and prints what operations of each kind take. From the root of a checkout,
with the package installed:

    python -m benchmarks.attention.attention_profile --length 64

Operations run side by side where they can, so their times add up to more than
the time that passes.
"""

import argparse
import collections
from collections.abc import Sequence

from benchmarks.attention.attention_speed import GRAPHS
from benchmarks.attention.attention_speed import PLAIN
from benchmarks.attention.attention_speed import PRECISIONS
from benchmarks.attention.attention_speed import RELATIVE
from benchmarks.attention.attention_speed import UNKNOWN
from benchmarks.attention.attention_speed import make_inputs
from benchmarks.attention.attention_speed import make_passes
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.operation_times import operation_times
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.tables import markdown_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_WARM_UP_CALLS = 2


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser("attention.attention_profile", __doc__, "--length 64")
    add = parser.add_argument
    add("--length", type=positive_int, default=64)
    add("--batch-tokens", type=positive_int, default=2048)
    add("--num-heads", type=positive_int, default=8)
    add("--key-dim", type=positive_int, default=64)
    add("--distance", type=positive_int, default=16, metavar="K")
    add("--precision", default="float32", choices=PRECISIONS)
    add("--graph", default=UNKNOWN, choices=GRAPHS, help="of which lengths")
    add("--calls", type=positive_int, default=50)
    add("--rows", type=positive_int, default=12, help="of the printed table")
    # What `make_passes` and `make_inputs` read beside.
    parser.set_defaults(mask="none", dropout=0.0)
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Profiles a layer with relations and one without.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each kind of operation, with calls and
        milliseconds of a pass; what relations make dearest comes first.
    """
    load_tensorflow_quietly()
    plain_calls, plain_ms = _profile(PLAIN, options)
    relative_calls, relative_ms = _profile(RELATIVE, options)
    kinds = sorted(
        {**plain_ms, **relative_ms},
        key=lambda kind: plain_ms[kind] - relative_ms[kind],
    )
    return [
        {
            "operation": kind,
            "plain_calls": plain_calls[kind],
            "plain_ms": plain_ms[kind],
            "relative_calls": relative_calls[kind],
            "relative_ms": relative_ms[kind],
        }
        for kind in kinds
    ]


def _profile(
    kind: str, options: argparse.Namespace
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns calls and milliseconds of each kind of operation in a pass."""
    passes = make_passes(kind, options, options.precision, options.graph)
    backward = passes["backward"]
    inputs = make_inputs(options, options.length, options.precision)

    def run(calls: int = options.calls) -> None:
        for _ in range(calls):
            gradients = backward(*inputs)
        gradients[0].numpy()

    run(_WARM_UP_CALLS)
    nanoseconds, counts, _ = operation_times(run)
    calls: dict[str, float] = collections.defaultdict(float)
    milliseconds: dict[str, float] = collections.defaultdict(float)
    for name, count in counts.items():
        calls[name] = count / options.calls
        milliseconds[name] = nanoseconds[name] / 1e6 / options.calls
    return calls, milliseconds


def describe(result: Result) -> str:
    """Returns the table of the dearest operations and of all together."""
    columns = ("plain_calls", "plain_ms", "relative_calls", "relative_ms")
    sums = {key: sum(row[key] for row in result.rows) for key in columns}
    total = sums["plain_ms"]
    cells = [
        [
            f"`{row['operation']}`",
            *(f"{row[key]:.2f}" for key in columns),
            f"{(row['relative_ms'] - row['plain_ms']) / total:+.1%}",
        ]
        for row in result.rows[: result.options["rows"]]
    ]
    more = f"{sums['relative_ms'] / total - 1:+.1%}"
    cells.append(["all", *(f"{sums[key]:.2f}" for key in columns), more])
    header = [
        "operation",
        "calls, no relative positions",
        "ms",
        "calls, relative",
        "ms",
        "more",
    ]
    options = result.options
    hidden_dim = options["num_heads"] * options["key_dim"]
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"A call at T = {options['length']}, {options['graph']} to the graph, "
        f"hidden {hidden_dim}, {options['num_heads']} heads, K = "
        f"{options['distance']}, {options['batch_tokens']:,} tokens, "
        f"{options['precision']}; mean of {options['calls']}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    run_benchmark(
        parser,
        options,
        arguments,
        measure,
        describe,
        precision=options.precision,
    )


if __name__ == "__main__":
    main()
