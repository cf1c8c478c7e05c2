"""Where the time of a step of decoding goes.

The program translates sentences with TensorFlow's profiler on, and prints the
operations that take most of the time, of the encoder and of all steps
together. From the root of a checkout, with the package installed:

    python -m benchmarks.decoding.decoding_profile MODEL --source test.en

Operations of one step run side by side where they can, so their times add up
to more than the time that passes.
"""

import argparse
from collections.abc import Sequence

import relative_attention as ra
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.operation_times import operation_times
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.tables import markdown_table
from relative_attention.data.lines import read_lines
from relative_attention.quiet_tensorflow import load_tensorflow_quietly


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser(
        "decoding.decoding_profile", __doc__, "runs/mine --source test.en"
    )
    add = parser.add_argument
    add("model", help="a model directory, or a name of the zoo")
    add("--source", required=True, metavar="FILE")
    add("--sentences", type=positive_int, default=256)
    add("--batch-size", type=positive_int, default=32)
    add("--beams", type=positive_int, default=1)
    add("--rows", type=positive_int, default=12, help="of the printed table")
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Profiles the translation of a text.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each kind of operation, the dearest first.
    """
    load_tensorflow_quietly()
    import tensorflow as tf

    translator = ra.load_translator(options.model)
    lines = list(read_lines(options.source))[: options.sentences]
    encoded = sorted(translator.source_vocabulary.encode(lines), key=len)
    batches = [
        tf.keras.utils.pad_sequences(
            encoded[start : start + options.batch_size], padding="post"
        )
        for start in range(0, len(encoded), options.batch_size)
    ]

    def translate() -> int:
        """Translates all batches; returns the number of steps."""
        steps = 0
        for batch in batches:
            results = ra.beam_search(
                translator.model, batch, num_beams=options.beams
            )
            steps += results["token_ids"].shape[-1]
        return steps

    translate()  # Makes the graph.
    nanoseconds, counts, steps = operation_times(translate)
    return [
        {
            "operation": name,
            "calls": counts[name],
            "calls_a_step": counts[name] / steps,
            "microseconds_each": total / 1000 / counts[name],
            "steps": steps,
        }
        for name, total in nanoseconds.most_common()
    ]


def describe(result: Result) -> str:
    """Returns the table of the dearest operations, and how many there are."""
    total = sum(row["calls"] * row["microseconds_each"] for row in result.rows)
    options = result.options
    cells = [
        [
            f"`{row['operation']}`",
            f"{row['calls_a_step']:.1f}",
            f"{row['microseconds_each']:.0f}",
            f"{row['calls'] * row['microseconds_each'] / total:.1%}",
        ]
        for row in result.rows[: options["rows"]]
    ]
    header = ["operation", "a step", "microseconds each", "share of the time"]
    calls = sum(row["calls_a_step"] for row in result.rows)
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"{calls:.0f} timed operations a step, {result.rows[0]['steps']} "
        f"steps; beam {options['beams']}, batch {options['batch_size']}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    run_benchmark(parser, options, arguments, measure, describe)


if __name__ == "__main__":
    main()
