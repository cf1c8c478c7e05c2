"""Whether training ever waits for its batches.

The program trains a model on the real pipeline
(`TokenBatches.train_dataset`), on the same batches held in memory, and on one
batch repeated, and shows the step time of the first over that of the others.
From the root of a checkout, with the package installed:

    python -m benchmarks.training.feeding --data DIR

`DIR` holds `train.en` and `train.de`, plain or `.gz`. The three take turns of
`--steps` steps in one process, `--rounds` times; ratios are taken within a
round, and the median over rounds is shown with the least and the greatest.
The same batches in memory are the fair comparison: the same shapes in the
same order. One batch is not the work of another, so the repeated one is that
of median size, and its time is compared by the token. At last the pipeline
runs alone, through a whole epoch, to show what it can deliver.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

import relative_attention as ra
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.round_robin import round_robin
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table
from benchmarks.training.workload import add_data_argument
from benchmarks.training.workload import compile_model
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import prepare_corpus
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

# The time on the pipeline over that on batches in memory that will do.
_BAR = 1.05
_PIPELINE = "pipeline"
_HELD = "same batches in memory"
_REPEATED = "one batch repeated"

Turn = dict[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add_data_argument(parser)
    add("--preset", default="transformer_tiny_relative")
    add("--dtype", default="float32", help="dtype policy")
    add("--vocabulary-size", type=positive_int, default=10_000)
    add("--batch-tokens", type=positive_int, default=4096)
    add("--rounds", type=positive_int, default=15)
    add("--steps", type=positive_int, default=12, help="of a turn")


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains on the three sources of batches, in turns."""
    if options.steps < 2:
        raise ra.InputError(
            f"--steps must be at least 2: the first is not counted. "
            f"Received: {options.steps}."
        )
    corpus = find_corpus(options.data)
    load_tensorflow_quietly()
    if options.preset not in ra.presets():
        raise ra.InputError(
            f"Unknown preset {options.preset!r}. Known: "
            f"{', '.join(ra.presets())}."
        )
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, tokens = prepare_corpus(
            corpus, options.vocabulary_size, folder
        )
        batches = ra.TokenBatches(tokens, options.batch_tokens)
        model = compile_model(options.preset, len(vocabulary), options.dtype)
        sources = make_sources(batches, options.steps)
        timer = _make_step_timer()

        def turn(name: str) -> Turn:
            model.fit(
                sources[name],
                steps_per_epoch=options.steps,
                callbacks=[timer],
                shuffle=False,
                verbose=0,
            )
            return timer.figures()

        turns = round_robin(list(sources), turn, options.rounds)
        return [*training_rows(turns), _measure_pipeline(batches)]


def make_sources(batches: "ra.TokenBatches", num_steps: int) -> dict[str, Any]:
    """Returns endless datasets to train on, by the names of their sources.

    All are made of `train_dataset`, so that their batches have the same type
    and the training step is compiled once.

    Args:
        batches: `TokenBatches`.
        num_steps: An integer, how many batches are held in memory.
    """
    pipeline = batches.train_dataset()
    sizes = [
        _count_tokens(inputs, labels)
        for inputs, labels in pipeline.take(num_steps).as_numpy_iterator()
    ]
    middle = int(np.argsort(sizes)[num_steps // 2])
    held = pipeline.take(num_steps).cache()
    repeated = pipeline.skip(middle).take(1).cache()
    for dataset in (held, repeated):
        # A cache is filled by reading it to its end.
        for _ in dataset:
            pass
    return {
        _PIPELINE: pipeline,
        _HELD: held.repeat(),
        _REPEATED: repeated.repeat(),
    }


def _count_tokens(inputs: Mapping[str, np.ndarray], labels: np.ndarray) -> int:
    """Returns the source and target tokens of a batch, without padding."""
    source = np.count_nonzero(inputs["source_token_ids"])
    return int(source + np.count_nonzero(labels))


def _measure_pipeline(batches: "ra.TokenBatches") -> Row:
    """Returns what the pipeline alone delivers in a whole epoch."""
    show_progress("the pipeline alone")
    pairs = tokens = 0
    start = time.perf_counter()
    dataset = batches.train_dataset().take(len(batches))
    for inputs, labels in dataset.as_numpy_iterator():
        pairs += len(labels)
        tokens += _count_tokens(inputs, labels)
    seconds = time.perf_counter() - start
    show_progress()
    return {
        "trained_on": None,
        "pairs_per_second": pairs / seconds,
        "tokens_per_second": tokens / seconds,
        "tokens_per_pair": tokens / pairs,
    }


def training_rows(turns: Mapping[str, Sequence[Turn]]) -> list[Row]:
    """Returns a row for each source.

    Args:
        turns: A mapping of what the turns took, by the name of the source.

    Returns:
        A list of dicts; `"pipeline_over_this"` is the time of a token on the
        pipeline over that on the source, in each round.
    """
    times = {
        name: [turn["seconds"] / turn["tokens"] for turn in found]
        for name, found in turns.items()
    }
    return [
        {
            "trained_on": name,
            "ms_per_step": [
                turn["seconds"] / turn["steps"] * 1e3 for turn in found
            ],
            "tokens_per_second": [1 / seconds for seconds in times[name]],
            "pipeline_over_this": None
            if name == _PIPELINE
            else ratios(times[_PIPELINE], times[name]),
        }
        for name, found in turns.items()
    ]


def describe(result: Result) -> str:
    """Returns the tables of training and of what the pipeline delivers."""
    trained = [row for row in result.rows if row["trained_on"]]
    (alone,) = [row for row in result.rows if not row["trained_on"]]
    options = result.options
    return (
        f"{_training_table(trained)}\n\n"
        f"{_feeding_table(trained[0], alone)}\n\n"
        f"{options['preset']}, {options['dtype']}, "
        f"{options['batch_tokens']:,} tokens a batch. Median (least to "
        f"greatest) of {options['rounds']} rounds of {options['steps']} steps."
    )


def _training_table(rows: Sequence[Row]) -> str:
    """Returns the table of step times and ratios."""
    cells = []
    for row in rows:
        ratio, met = "", ""
        if row["pipeline_over_this"] is not None:
            ratio = spread(row["pipeline_over_this"], 3)
            met = "yes" if median(row["pipeline_over_this"]) <= _BAR else "no"
        cells.append(
            [
                row["trained_on"],
                f"{median(row['ms_per_step']):,.1f}",
                f"{median(row['tokens_per_second']):,.0f}",
                ratio,
                met,
            ]
        )
    header = [
        "trained on",
        "ms/step",
        "tokens/s",
        "pipeline's time a token over this",
        f"at most {_BAR}",
    ]
    return markdown_table(header, cells)


def _feeding_table(trained: Row, delivered: Row) -> str:
    """Returns what the pipeline delivers against what training takes."""
    taken = median(trained["tokens_per_second"])
    ratio = f"{delivered['tokens_per_second'] / taken:,.0f}"
    cells = [
        [
            "the pipeline alone delivers",
            f"{delivered['pairs_per_second']:,.0f}",
            f"{delivered['tokens_per_second']:,.0f}",
        ],
        [
            "training takes",
            f"{taken / delivered['tokens_per_pair']:,.0f}",
            f"{taken:,.0f}",
        ],
        ["ratio", ratio, ratio],
    ]
    return markdown_table(["", "pairs/s", "tokens/s"], cells)


def _make_step_timer() -> Any:
    """Returns a callback whose `figures` say what a call of `fit` took.

    The class is made when it is needed, as its base brings TensorFlow. The
    first step is left out: it opens the dataset.
    """
    import keras

    class StepTimer(keras.callbacks.Callback):
        def on_train_batch_end(
            self, batch: int, logs: dict[str, Any] | None = None
        ) -> None:
            # Reading a result waits for the step to end.
            tokens = float((logs or {})["tokens"])
            if batch == 0:
                self.start, self.first_tokens = time.perf_counter(), tokens
            self.steps = batch
            self.seconds = time.perf_counter() - self.start
            self.tokens = tokens - self.first_tokens

        def figures(self) -> dict[str, float]:
            return {
                "steps": self.steps,
                "seconds": self.seconds,
                "tokens": self.tokens,
            }

    return StepTimer()


main = benchmark(
    "training.feeding",
    __doc__,
    "--data data/multi30k",
    add_arguments,
    measure,
    describe,
    precision=lambda options: options.dtype,
)

if __name__ == "__main__":
    main()
