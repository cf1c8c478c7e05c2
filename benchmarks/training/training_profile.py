"""Where the time of a training step goes.

The program trains the model of `training_speed` with TensorFlow's profiler on,
and prints the operations that take most of the time. From the root of a
checkout, with the package installed:

    python -m benchmarks.training.training_profile --data DIR

Operations of a step run side by side where they can, so their times add up to
more than the time that passes.
"""

import argparse
import tempfile

import relative_attention as ra
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.operation_times import operation_times
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.speed_tables import training_profile_table
from benchmarks.training.workload import add_data_argument
from benchmarks.training.workload import compile_model
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import prepare_corpus
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

# The first step makes the graph, those after it allocate.
_WARM_UP_STEPS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add_data_argument(parser)
    add("--preset", choices=ra.presets(), default="transformer_small_relative")
    add("--vocabulary-size", type=positive_int, default=8000)
    add("--batch-tokens", type=positive_int, default=2048)
    add(
        "--dtype",
        choices=["float32", "mixed_bfloat16"],
        default="mixed_bfloat16",
    )
    add("--steps", type=positive_int, default=20, help="profiled steps")
    add("--rows", type=positive_int, default=12, help="of the printed table")


def measure(options: argparse.Namespace) -> list[Row]:
    """Profiles some training steps."""
    load_tensorflow_quietly()
    corpus = find_corpus(options.data)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, tokens = prepare_corpus(
            corpus, options.vocabulary_size, folder
        )
        batches = ra.TokenBatches(tokens, options.batch_tokens, seed=0)
        model = compile_model(options.preset, len(vocabulary), options.dtype)
        model.make_train_function()
        iterator = iter(batches.train_dataset())

        def train(num_steps: int) -> None:
            for _ in range(num_steps):
                logs = model.train_function(iterator)
            float(logs["loss"])  # Waits for the last of them.

        train(_WARM_UP_STEPS)
        nanoseconds, counts, _ = operation_times(lambda: train(options.steps))
    return [
        {
            "operation": name,
            "calls_a_step": counts[name] / options.steps,
            "milliseconds_a_step": total / 1e6 / options.steps,
        }
        for name, total in nanoseconds.most_common()
    ]


def describe(result: Result) -> str:
    """Returns the table of the dearest operations, and the sum of all."""
    options = result.options
    total = sum(row["milliseconds_a_step"] for row in result.rows)
    return (
        f"{training_profile_table(result)}\n\n"
        f"{total:.0f} ms of operations a step; `{options['preset']}`, "
        f"{options['batch_tokens']:,} tokens a batch, {options['dtype']}."
    )


main = benchmark(
    "training.training_profile",
    __doc__,
    "--data data/multi30k",
    add_arguments,
    measure,
    describe,
    precision=lambda options: options.dtype,
)

if __name__ == "__main__":
    main()
