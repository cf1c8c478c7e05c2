"""Where the time goes that relative positions cost an attention layer.

Runs forward and backward pass of `RelativeSelfAttention`, with relations and
without, with TensorFlow's profiler on, and prints what operations of each kind
take. From the root of a checkout, with the package installed:

    python benchmarks/attention_profile.py --length 64

Operations run side by side where they can, so their times add up to more than
the time that passes.
"""

import argparse
import collections

import attention_contestant
import numpy as np
import report
import tensorflow as tf
from operation_times import operation_times

from relative_attention.runs.provenance import provenance
from relative_attention.runs.provenance import provenance_sentence

# Without relations, and with.
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
    columns = {}
    for kind in _KINDS:
        calls, milliseconds = measure(kind, options)
        columns |= {f"calls, {kind}": calls, f"ms, {kind}": milliseconds}
    without, with_ = (columns[f"ms, {kind}"] for kind in _KINDS)
    operations = sorted(
        without | with_, key=lambda name: without[name] - with_[name]
    )
    total = without.total()
    rows = [
        [
            f"`{name}`",
            *(f"{column[name]:.2f}" for column in columns.values()),
            f"{(with_[name] - without[name]) / total:+.1%}",
        ]
        for name in operations[: options.rows]
    ]
    sums = [f"{column.total():.2f}" for column in columns.values()]
    rows.append(["all", *sums, f"{with_.total() / total - 1:+.1%}"])
    header = ["operation", *columns, "more"]
    print(report.markdown_table(header, rows))
    hidden_dim = options.num_heads * options.key_dim
    print(
        f"\nA call at T = {options.length}, hidden {hidden_dim}, "
        f"{options.num_heads} heads, K = {options.max_relative_position}, "
        f"{options.batch_tokens:,} tokens; mean of {options.calls}. "
        f"{provenance_sentence(provenance())}."
    )


def measure(kind, options):
    """Calls and milliseconds of each kind of operation in a pass."""
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
    return tuple(
        collections.Counter({name: x[name] / scale for name in x})
        for x, scale in (
            (counts, options.calls),
            (times, 1000 * options.calls),
        )
    )


if __name__ == "__main__":
    main()
