"""Where the time goes that relative positions cost an attention layer.

The program runs forward and backward pass of `RelativeSelfAttention`, with
relations and without, with TensorFlow's profiler on, and prints what
operations of each kind take. From the root of a checkout, with the package
installed:

    python -m benchmarks.attention.attention_profile --length 64

Operations run side by side where they can, so their times add up to more than
the time that passes.
"""

import argparse
import collections
from collections.abc import Sequence

from benchmarks.attention.layer_kinds import PLAIN
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
    add("--max-relative-position", type=positive_int, default=16)
    add("--calls", type=positive_int, default=50)
    add("--rows", type=positive_int, default=12, help="of the printed table")
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
    relative_calls, relative_ms = _profile("auto", options)
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
    import numpy as np
    import tensorflow as tf

    from benchmarks.attention.attention_engine import compile_passes
    from benchmarks.attention.attention_engine import make_layer

    layer = make_layer(
        kind,
        options.num_heads,
        options.key_dim,
        options.max_relative_position,
    )
    batch_size = max(1, options.batch_tokens // options.length)
    hidden_dim = options.num_heads * options.key_dim
    rng = np.random.default_rng(0)
    inputs = tf.constant(
        rng.normal(size=(batch_size, options.length, hidden_dim)), tf.float32
    )
    _, backward = compile_passes(layer, kind)

    def run(calls: int = options.calls) -> None:
        for _ in range(calls):
            gradients = backward(inputs)
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
        f"A call at T = {options['length']}, hidden {hidden_dim}, "
        f"{options['num_heads']} heads, K = "
        f"{options['max_relative_position']}, {options['batch_tokens']:,} "
        f"tokens; mean of {options['calls']}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    run_benchmark(parser, options, arguments, measure, describe)


if __name__ == "__main__":
    main()
