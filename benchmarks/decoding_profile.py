"""Where the time of a step of decoding goes.

Translates sentences with TensorFlow's profiler on, and prints the operations
that take most of the time, of the encoder and of all steps together:

    python benchmarks/decoding_profile.py MODEL --source test.en

Operations of one step run side by side where they can, so their times add up
to more than the time that passes.
"""

import argparse
import pathlib

import report
import tensorflow as tf
from operation_times import operation_times

import relative_attention as ra
from relative_attention.runs.provenance import provenance
from relative_attention.runs.provenance import provenance_sentence


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a model directory, or a name of the zoo")
    parser.add_argument("--source", required=True, metavar="F")
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--rows", type=int, default=12)
    options = parser.parse_args()
    translator = ra.load_translator(options.model)
    lines = pathlib.Path(options.source).read_text("utf-8").splitlines()
    rows = translator.source_vocabulary.encode(lines[: options.sentences])
    rows = sorted(map(list, rows), key=len)
    batches = [
        rows[start : start + options.batch_size]
        for start in range(0, len(rows), options.batch_size)
    ]

    def translate():
        """All batches; the number of steps."""
        steps = 0
        for batch in batches:
            padded = tf.keras.utils.pad_sequences(batch, padding="post")
            results = ra.beam_search(
                translator.model, padded, num_beams=options.beams
            )
            steps += results["token_ids"].shape[-1]
        return steps

    translate()  # Makes the graph.
    times, counts, steps = operation_times(translate)
    total = sum(times.values())
    print(
        report.markdown_table(
            ["operation", "a step", "microseconds each", "share of the time"],
            [
                [
                    f"`{name}`",
                    f"{counts[name] / steps:.1f}",
                    f"{times[name] / counts[name]:.0f}",
                    f"{times[name] / total:.1%}",
                ]
                for name, _ in times.most_common(options.rows)
            ],
        )
    )
    print(
        f"\n{sum(counts.values()) / steps:.0f} timed operations a step, "
        f"{steps} steps; beam {options.beams}, batch {options.batch_size}. "
        f"{provenance_sentence(provenance())}."
    )


if __name__ == "__main__":
    main()
