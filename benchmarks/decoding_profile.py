"""Where the time of a step of decoding goes.

Translates sentences with TensorFlow's profiler on, and prints the operations
that take most of the time, of the encoder and of all steps together:

    python benchmarks/decoding_profile.py MODEL --source test.en

Operations of one step run side by side where they can, so their times add up
to more than the time that passes.
"""

import argparse
import collections
import pathlib
import tempfile

import report
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import relative_attention as ra
from relative_attention.experiments.provenance import provenance
from relative_attention.experiments.provenance import provenance_sentence


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
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            steps = translate()
        times, counts = _operations(pathlib.Path(folder))
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


def _operations(folder):
    """Microseconds and calls of each kind of operation."""
    times, counts = collections.Counter(), collections.Counter()
    for path in folder.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            names = {
                key: event.name for key, event in plane.event_metadata.items()
            }
            for line in plane.lines:
                for event in line.events:
                    # An operation of a graph is called `node:Kind#...#`.
                    node, colon, kind = names[event.metadata_id].partition(":")
                    kind = kind.partition("#")[0]
                    if node and colon and kind.isidentifier():
                        times[kind] += event.duration_ps / 1e6
                        counts[kind] += 1
    return times, counts


if __name__ == "__main__":
    main()
