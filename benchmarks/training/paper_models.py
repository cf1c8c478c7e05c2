"""How much memory the paper's models take to train.

The program trains the base and the big model, with sinusoidal and with relative
positions, for three updates on random tokens: batches of 4,096 tokens a side,
as a device has them in the recipes `wmt14_*`, of sentences of 128 tokens. From
the root of a checkout, with the package installed:

    python -m benchmarks.training.paper_models

Each row is a process of its own, on TensorFlow. Peak memory is its largest
resident set, as the system counts it: weights, gradients and Adam's moments in
float32, what the backward pass keeps in `--precision`, and the program.
"""

import argparse

from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.fresh_process import in_fresh_process
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.tables import markdown_table
from benchmarks.training.workload import train_on_random_tokens

PRESETS = (
    "transformer_base",
    "transformer_base_relative",
    "transformer_big",
    "transformer_big_relative",
)
_LENGTH = 128


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains every preset, each in its own process."""
    rows: list[Row] = []
    shape = (max(options.batch_tokens // _LENGTH, 1), _LENGTH)
    for preset in options.presets:
        show_progress(preset)
        row = in_fresh_process(
            train_on_random_tokens,
            preset,
            options.precision,
            options.vocabulary_size,
            shape,
            1,
        )
        rows.append({"preset": preset, **row})
    show_progress()
    return rows


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--presets", nargs="+", default=[*PRESETS], metavar="NAME")
    add("--precision", default="mixed_bfloat16")
    for name, number in {
        "--vocabulary-size": 32768,
        "--batch-tokens": 4096,
    }.items():
        add(name, type=positive_int, default=number, metavar="NUMBER")


def memory_table(result: Result) -> str:
    """Returns parameters and memory, by preset."""
    cells = [
        [
            f"`{row['preset']}`",
            f"{row['parameters']:,}",
            f"{row['peak_memory_bytes'] / 1e9:.1f} GB",
        ]
        for row in result.rows
    ]
    return markdown_table(["preset", "parameters", "peak memory"], cells)


main = benchmark(
    "training.paper_models",
    __doc__,
    "--presets transformer_base_relative",
    _add_arguments,
    measure,
    memory_table,
    precision=lambda options: options.precision,
)

if __name__ == "__main__":
    main()
