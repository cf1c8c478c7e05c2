"""What the products of a step of decoding gain by the way they are made.

TensorFlow multiplies few rows by a large matrix slowly on CPUs.
`TokenEmbedding.logits(few_rows=True)` has the matrix on the left, and
`step_logits` and `step_context` let each hypothesis of a sentence attend by
itself. This times them against the usual products, in turns, and prints by how
much they are faster. From the root of a checkout, with the package installed:

    python benchmarks/few_rows.py
"""

import argparse
import functools
import statistics

import numpy as np
import report
from paired_times import paired_times

import relative_attention as ra
from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.step_attention import step_context
from relative_attention.ops.step_attention import step_logits
from relative_attention.runs.provenance import provenance
from relative_attention.runs.provenance import provenance_sentence


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1, 4, 32, 128, 512, 1024]
    )
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument(
        "--keys", type=int, nargs="+", default=[16, 64, 128, 256, 512, 1024]
    )
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--num-heads", type=int, default=8)
    parser.add_argument("--key-dim", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.1)
    options = parser.parse_args()
    hidden_dim = options.num_heads * options.key_dim
    embedding = ra.TokenEmbedding(options.vocabulary_size, hidden_dim)
    embedding.build()
    rows = [
        _compare(
            f"logits of {count:,} rows",
            embedding.logits,
            functools.partial(embedding.logits, few_rows=True),
            [_normal(count, hidden_dim)],
            options,
        )
        for count in options.rows
    ]
    batch = (options.batch_size, options.num_heads)
    for count in options.keys:
        query = _normal(*batch, options.beams, options.key_dim)
        keys = _normal(*batch, count, options.key_dim)
        scores = _normal(*batch, options.beams, count)
        for name, usual, few, operands in (
            ("logits", attention_logits, step_logits, [query, keys]),
            ("context", attention_context, step_context, [scores, keys]),
        ):
            rows.append(
                _compare(
                    f"attention {name}, {count:,} keys",
                    usual,
                    few,
                    operands,
                    options,
                )
            )
    report.progress()
    header = ["product", "usual", "of a step", "times as fast"]
    print(report.markdown_table(header, rows))
    print(
        f"\nHidden {hidden_dim}, {options.vocabulary_size:,} tokens; attention "
        f"of {options.batch_size} sentences, {options.num_heads} heads, "
        f"{options.beams} hypotheses; {options.rounds} rounds, median (least "
        f"to greatest). {provenance_sentence(provenance())}."
    )


def _normal(*shape):
    import tensorflow as tf

    return tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)


def _compare(name, usual, few, operands, options):
    report.progress(name)
    times = paired_times(
        {
            "usual": _compiled(usual, operands),
            "few": _compiled(few, operands),
        },
        options.rounds,
        options.seconds,
    )
    ratios = [a / b for a, b in zip(times["usual"], times["few"])]
    return [
        name,
        f"{statistics.median(times['usual']):.2f} ms",
        f"{statistics.median(times['few']):.2f} ms",
        report.spread(ratios),
    ]


def _compiled(function, operands):
    import tensorflow as tf

    compiled = tf.function(function, autograph=False)
    return lambda: compiled(*operands)


if __name__ == "__main__":
    main()
