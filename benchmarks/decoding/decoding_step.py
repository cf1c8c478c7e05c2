"""What relative positions cost a step of cached decoding.

The program times `RelativeSelfAttention.decode_step` with relation tables and
without, in turns, after so many cached positions, and prints the ratio. From
the root of a checkout, with the package installed:

    python -m benchmarks.decoding.decoding_step
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import relative_attention as ra
from benchmarks.harness.call_times import paired_times
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_float
from benchmarks.harness.command import positive_int
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.tensor_type import Tensor

# Steps after which a search merges what is recent in the cache with the rest.
_MERGE_EVERY = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    positions = [16, 128, 512, 1024]
    add("--positions", type=positive_int, nargs="+", default=positions)
    add("--batch-size", type=positive_int, default=32)
    add("--beams", type=positive_int, nargs="+", default=[1, 4])
    add("--num-heads", type=positive_int, default=8)
    add("--key-dim", type=positive_int, default=64)
    add("--max-relative-position", type=positive_int, default=16)
    add("--rounds", type=positive_int, default=15)
    add("--seconds", type=positive_float, default=0.2)


def measure(options: argparse.Namespace) -> list[Row]:
    """Times a step for each number of beams and of cached positions."""
    load_tensorflow_quietly()
    rows = []
    for beams in options.beams:
        for position in options.positions:
            times = paired_times(
                _make_steps(options, beams, position),
                options.rounds,
                options.seconds,
                f"beam {beams}, {position} positions, ",
            )
            rows.append(
                {
                    "num_beams": beams,
                    "cached_positions": position,
                    "plain_ms": median(times["plain"]),
                    "relative_ms": median(times["relative"]),
                    "ratio": ratios(times["relative"], times["plain"]),
                }
            )
    return rows


def _make_steps(
    options: argparse.Namespace, beams: int, position: int
) -> dict[str, Callable[[], Tensor]]:
    """Returns compiled steps of a layer without relations and with them.

    Args:
        options: The options of the command.
        beams: An integer, hypotheses of a sentence.
        position: An integer, the number of positions that are cached.
    """
    import tensorflow as tf

    rng = np.random.default_rng(0)
    hidden_dim = options.num_heads * options.key_dim
    inputs = tf.constant(
        rng.normal(size=(options.batch_size, beams, hidden_dim)), tf.float32
    )
    # The beam that wrote each position of each beam's history.
    history = rng.integers(0, beams, (options.batch_size, beams, position + 1))
    ancestors = tf.constant(history, tf.int32) if beams > 1 else None
    steps = {}
    for name, has_relations in (("plain", False), ("relative", True)):
        layer = ra.RelativeSelfAttention(
            options.num_heads,
            options.key_dim,
            options.max_relative_position,
            use_key_relations=has_relations,
            use_value_relations=has_relations,
        )
        layer.build((None, None, hidden_dim))
        cache = _fill_cache(layer, inputs, position, ancestors)
        steps[name] = _compile(layer, inputs, cache, position, ancestors)
    return steps


def _fill_cache(
    layer: "ra.RelativeSelfAttention",
    inputs: Tensor,
    num_positions: int,
    ancestors: Tensor | None,
) -> Any:
    """Returns the cache after so many steps, merged as a search does it."""
    cache = layer.start_cache(inputs.shape[0])
    for position in range(num_positions):
        past = None if ancestors is None else ancestors[:, :, : position + 1]
        _, cache = layer.decode_step(inputs, cache, position, past)
        if (position + 1) % _MERGE_EVERY == 0:
            cache = cache.merged()
    return cache


def _compile(
    layer: "ra.RelativeSelfAttention",
    inputs: Tensor,
    cache: Any,
    position: int,
    ancestors: Tensor | None,
) -> Callable[[], Tensor]:
    """Returns a function without arguments that takes the step."""
    import tensorflow as tf

    # What is captured is an input of the graph: nothing is computed ahead.
    last = tf.constant(position)

    @tf.function(autograph=False)
    def step() -> Tensor:
        outputs, _ = layer.decode_step(inputs, cache, last, ancestors)
        return outputs

    return step


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""
    cells = [
        [
            f"beam {row['num_beams']}, {row['cached_positions']:,} cached "
            "positions",
            f"{row['plain_ms']:.2f} ms",
            f"{row['relative_ms']:.2f} ms",
            spread(row["ratio"]),
        ]
        for row in result.rows
    ]
    header = ["step", "no relative positions", "relative", "ratio"]
    options = result.options
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"Hidden {options['num_heads'] * options['key_dim']}, "
        f"{options['num_heads']} heads, K = "
        f"{options['max_relative_position']}, {options['batch_size']} "
        f"sentences; {options['rounds']} rounds, median (least to greatest)."
    )


main = benchmark(
    "decoding.decoding_step",
    __doc__,
    "--positions 512 --beams 4",
    add_arguments,
    measure,
    describe,
)

if __name__ == "__main__":
    main()
