"""What relative positions cost a step of cached decoding.

Times `RelativeSelfAttention.decode_step` with and without relation tables, in
turns, after so many cached positions, and prints the ratio. From the root of
a checkout, with the package installed:

    python benchmarks/decoding_step.py
"""

import argparse
import functools
import statistics

import keras
import numpy as np
import report
from paired_times import paired_times

import relative_attention as ra
from relative_attention.runs.provenance import provenance
from relative_attention.runs.provenance import provenance_sentence


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--positions", type=int, nargs="+", default=[16, 128, 512, 1024]
    )
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--num-heads", type=int, default=8)
    parser.add_argument("--key-dim", type=int, default=64)
    parser.add_argument("--max-relative-position", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    rows = []
    for beams in options.beams:
        for position in options.positions:
            report.progress(f"beam {beams}, {position} positions")
            times = measure(options, beams, position)
            ratios = [
                with_ / without
                for with_, without in zip(times[True], times[False])
            ]
            rows.append(
                [
                    f"beam {beams}, {position:,} cached positions",
                    f"{statistics.median(times[False]):.2f} ms",
                    f"{statistics.median(times[True]):.2f} ms",
                    report.spread(ratios),
                ]
            )
    report.progress()
    header = ["step", "no relative positions", "relative", "ratio"]
    print(report.markdown_table(header, rows))
    print(
        f"\nHidden {options.num_heads * options.key_dim}, {options.num_heads} "
        f"heads, K = {options.max_relative_position}, {options.batch_size} "
        f"sentences; {options.rounds} rounds, median (least to greatest).\n"
        + provenance_sentence(provenance())
    )


def measure(options, beams, position):
    """Milliseconds of a step, with relations and without, by round."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    heads = (options.batch_size, options.num_heads)
    hidden_dim = options.num_heads * options.key_dim
    inputs = tf.constant(
        rng.normal(size=(options.batch_size, beams, hidden_dim)), tf.float32
    )
    places = rng.integers(0, beams, (options.batch_size, beams, position + 1))
    ancestors = tf.constant(places, tf.int32) if beams > 1 else None

    def past(num_positions):
        shape = (*heads, num_positions * beams, options.key_dim)
        return tf.constant(rng.normal(size=shape), tf.float32)

    recent = position % 32
    cache = {
        "key": past(position - recent),
        "value": past(position - recent),
        "recent_key": past(recent),
        "recent_value": past(recent),
    }
    steps = {}
    for has_relations in (True, False):
        layer = ra.RelativeSelfAttention(
            options.num_heads,
            options.key_dim,
            options.max_relative_position,
            use_key_relations=has_relations,
            use_value_relations=has_relations,
        )
        layer.build((None, None, hidden_dim))
        steps[has_relations] = _compiled(
            layer, inputs, cache, position, ancestors
        )
    return paired_times(steps, options.rounds, options.seconds)


def _compiled(layer, inputs, cache, position, ancestors):
    import tensorflow as tf

    # Sentences and positions of any number, as in a search.
    @tf.function(autograph=False, reduce_retracing=True)
    def step(inputs, cache, position):
        outputs, _ = layer.decode_step(inputs, cache, position, ancestors)
        return outputs

    position = keras.ops.convert_to_tensor(position, "int32")
    return functools.partial(step, inputs, cache, position)


if __name__ == "__main__":
    main()
