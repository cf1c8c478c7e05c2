"""Where the time goes that relative positions cost an attention layer.

Runs forward and backward pass of `RelativeSelfAttention`, with relations and
without, with TensorFlow's profiler on, and prints what operations of each kind
take. From the root of a checkout, with the package installed:

    python benchmarks/attention_profile.py --length 64

Operations run side by side where they can, so their times add up to more than
the time that passes.
"""

import argparse

import attention_contestant
import numpy as np
import report
import tensorflow as tf
from operation_times import operation_times

from relative_attention.experiments.provenance import provenance
from relative_attention.experiments.provenance import provenance_sentence

_KINDS = ("none", "auto")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--num-heads", type=int, default=8)
    parser.add_argument("--key-dim", type=int, default=64)
    parser.add_argument("--max-relative-position", type=int, default=16)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--rows", type=int, default=12)
    options = parser.parse_args()
    times, counts = {}, {}
    for kind in _KINDS:
        times[kind], counts[kind] = measure(kind, options)
    without, with_ = (times[kind] for kind in _KINDS)
    kinds = sorted(
        with_ | without, key=lambda kind: without[kind] - with_[kind]
    )
    total = sum(without.values())
    rows = [
        [
            f"`{kind}`",
            *(
                f"{x[kind] / options.calls / scale:{form}}"
                for x, scale, form in (
                    (counts["none"], 1, ".0f"),
                    (counts["auto"], 1, ".0f"),
                    (without, 1000, ".2f"),
                    (with_, 1000, ".2f"),
                )
            ),
            f"{(with_[kind] - without[kind]) / total:+.1%}",
        ]
        for kind in kinds[: options.rows]
    ]
    rows.append(
        [
            "all",
            *(
                f"{sum(counts[kind].values()) / options.calls:.0f}"
                for kind in _KINDS
            ),
            *(
                f"{sum(times[kind].values()) / options.calls / 1000:.2f}"
                for kind in _KINDS
            ),
            f"{sum(with_.values()) / total - 1:+.1%}",
        ]
    )
    header = [
        "operation",
        "calls without",
        "with",
        "ms without",
        "with",
        "more, of all without",
    ]
    print(report.markdown_table(header, rows))
    print(
        f"\nT = {options.length}, hidden {options.num_heads * options.key_dim}, "
        f"{options.num_heads} heads, K = {options.max_relative_position}, "
        f"{options.batch_tokens:,} tokens; mean of {options.calls} calls. "
        f"{provenance_sentence(provenance())}."
    )


def measure(kind, options):
    """Microseconds and calls of each kind of operation, in all calls."""
    layer = attention_contestant.make_layer(
        kind,
        options.num_heads,
        options.key_dim,
        options.max_relative_position,
        "float32",
    )
    batch_size = max(1, options.batch_tokens // options.length)
    hidden_dim = options.num_heads * options.key_dim
    rng = np.random.default_rng(0)
    inputs = tf.constant(
        rng.normal(size=(batch_size, options.length, hidden_dim)), tf.float32
    )
    _, backward = attention_contestant.compiled(layer, kind)

    def run(calls=options.calls):
        for _ in range(calls):
            outputs = backward(inputs)
        outputs[0].numpy()

    run(2)
    times, counts, _ = operation_times(run)
    return times, counts


if __name__ == "__main__":
    main()
