"""Whether training ever waits for its batches.

Trains a model on the real pipeline (`TokenBatches.train_dataset`), on the
same batches held in memory, and on one batch repeated, and shows the step
time of the first over that of the others. From the root of a checkout, with
the package installed:

    python benchmarks/feeding.py --data DIR

`DIR` holds `train.en` and `train.de`, plain or `.gz`. The three take turns of
`--steps` steps in one process, `--rounds` times; ratios are taken within a
round, and the median over rounds is shown with the least and the greatest.
The same batches in memory are the fair comparison: the same shapes in the
same order. One batch is not the work of another, so the repeated one is that
of median size, and its time is compared by the token. At last the pipeline
runs alone, through a whole epoch, to show what it can deliver.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import report
import workload

import relative_attention as ra
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_BAR = 1.05
_SOURCES = ("pipeline", "same batches in memory", "one batch repeated")


def make_sources(batches, num_steps):
    """Endless datasets to train on, by their names in `_SOURCES`.

    All are made of `train_dataset`, so that their batches have the same type
    and the training step is compiled once.
    """
    pipeline = batches.train_dataset()
    sizes = [
        np.count_nonzero(inputs["source_token_ids"]) + np.count_nonzero(labels)
        for inputs, labels in pipeline.take(num_steps).as_numpy_iterator()
    ]
    median = int(np.argsort(sizes)[num_steps // 2])
    held = pipeline.take(num_steps).cache()
    repeated = pipeline.skip(median).take(1).cache()
    for dataset in (held, repeated):
        # A cache is filled by reading it to its end.
        for _ in dataset:
            pass
    return dict(zip(_SOURCES, (pipeline, held.repeat(), repeated.repeat())))


def make_timer():
    """A callback with the `steps`, `seconds` and `tokens` of a call of `fit`.

    The first step is left out: it opens the dataset.
    """
    import keras

    class Timer(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            # Reading a result waits for the step to end.
            tokens = float(logs["tokens"])
            if batch == 0:
                self.start, self.first_tokens = time.perf_counter(), tokens
            self.steps = batch
            self.seconds = time.perf_counter() - self.start
            self.tokens = tokens - self.first_tokens

    return Timer()


def train(model, dataset, num_steps, timer):
    """Train some steps; returns a dict of what they took."""
    model.fit(
        dataset,
        steps_per_epoch=num_steps,
        callbacks=[timer],
        shuffle=False,
        verbose=0,
    )
    return {
        "steps": timer.steps,
        "seconds": timer.seconds,
        "tokens": timer.tokens,
    }


def measure_training(model, sources, options):
    """Let the sources take turns; returns lists of windows by source."""
    timer = make_timer()
    for name, dataset in sources.items():
        report.progress(f"warming up: {name}")
        train(model, dataset, options.steps, timer)
    windows = {name: [] for name in sources}
    order = list(sources)
    for number in range(options.rounds):
        for name in order:
            report.progress(f"round {number + 1} of {options.rounds}: {name}")
            windows[name].append(
                train(model, sources[name], options.steps, timer)
            )
        # There and back: a steady drift then favours nobody.
        order.reverse()
    report.progress()
    return windows


def measure_feeding(batches):
    """What the pipeline alone delivers; a dict of pairs and tokens a second."""
    report.progress("the pipeline alone")
    pairs = tokens = 0
    start = time.perf_counter()
    dataset = batches.train_dataset().take(len(batches))
    for inputs, labels in dataset.as_numpy_iterator():
        pairs += len(labels)
        tokens += np.count_nonzero(inputs["source_token_ids"])
        tokens += np.count_nonzero(labels)
    seconds = time.perf_counter() - start
    report.progress()
    return {
        "pairs_per_second": pairs / seconds,
        "tokens_per_second": int(tokens) / seconds,
        "tokens_per_pair": int(tokens) / pairs,
    }


def time_ratios(windows):
    """Time a token on the pipeline over that on each other source."""
    pipeline, *others = (
        [w["seconds"] / w["tokens"] for w in windows[name]] for name in _SOURCES
    )
    return {
        name: [mine / other for mine, other in zip(pipeline, times)]
        for name, times in zip(_SOURCES[1:], others)
    }


def training_table(windows):
    """Step times and ratios, Markdown."""
    ratios = time_ratios(windows)
    rows = []
    for name in _SOURCES:
        steps = [w["seconds"] / w["steps"] * 1e3 for w in windows[name]]
        speeds = [w["tokens"] / w["seconds"] for w in windows[name]]
        row = [
            name,
            f"{statistics.median(steps):,.1f}",
            f"{statistics.median(speeds):,.0f}",
        ]
        if name in ratios:
            met = statistics.median(ratios[name]) <= _BAR
            row += [report.spread(ratios[name], 3), "yes" if met else "no"]
        else:
            row += ["", ""]
        rows.append(row)
    header = [
        "trained on",
        "ms/step",
        "tokens/s",
        "pipeline's time a token over this",
        f"at most {_BAR}",
    ]
    return report.markdown_table(header, rows)


def feeding_table(windows, feeding):
    """What the pipeline delivers against what training takes, Markdown."""
    consumed = statistics.median(
        w["tokens"] / w["seconds"] for w in windows[_SOURCES[0]]
    )
    rows = [
        [
            "the pipeline alone delivers",
            f"{feeding['pairs_per_second']:,.0f}",
            f"{feeding['tokens_per_second']:,.0f}",
        ],
        [
            "training takes",
            f"{consumed / feeding['tokens_per_pair']:,.0f}",
            f"{consumed:,.0f}",
        ],
        [
            "ratio",
            *[f"{feeding['tokens_per_second'] / consumed:,.0f}"] * 2,
        ],
    ]
    return report.markdown_table(["", "pairs/s", "tokens/s"], rows)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python benchmarks/feeding.py --data data/multi30k",
    )
    workload.add_data_argument(parser)
    parser.add_argument("--preset", default="transformer_tiny_relative")
    parser.add_argument("--dtype", default="float32", help="dtype policy")
    parser.add_argument("--vocabulary-size", type=int, default=10_000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=12, help="of a turn")
    parser.add_argument(
        "--output", metavar="FILE.json", help="all figures, for a machine"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be positive. Received: {options.rounds}.")
    if options.steps < 2:
        parser.error(
            f"--steps must be at least 2: the first is not counted. "
            f"Received: {options.steps}."
        )
    return options


def main():
    options = parse_arguments()
    try:
        corpus = workload.find_corpus(options.data)
        load_tensorflow_quietly()
        if options.preset not in ra.presets():
            raise ra.InputError(
                f"Unknown preset {options.preset!r}. Known: "
                f"{', '.join(ra.presets())}."
            )
        with tempfile.TemporaryDirectory() as folder:
            windows, feeding = measure(corpus, folder, options)
    except ra.InputError as error:
        sys.exit(f"error: {error}")
    # Not before TensorFlow has been loaded, quietly.
    from relative_attention.runs.provenance import provenance
    from relative_attention.runs.provenance import provenance_sentence

    description = provenance()
    print(f"{training_table(windows)}\n\n{feeding_table(windows, feeding)}\n")
    print(
        f"{options.preset}, {options.dtype}, {options.batch_tokens:,} tokens "
        f"a batch. Median (least to greatest) of {options.rounds} rounds of "
        f"{options.steps} steps.\n{provenance_sentence(description)}"
    )
    if options.output:
        content = {
            "settings": vars(options),
            "windows": windows,
            "time_ratios": time_ratios(windows),
            "feeding": feeding,
            "provenance": description,
        }
        pathlib.Path(options.output).write_text(
            json.dumps(content, indent=2) + "\n"
        )


def measure(corpus, folder, options):
    """Pair of the windows trained and what the pipeline alone delivers."""
    vocabulary, tokens = workload.prepare(
        corpus, options.vocabulary_size, folder
    )
    batches = ra.TokenBatches(tokens, options.batch_tokens)
    model = workload.compiled_model(
        options.preset, len(vocabulary), options.dtype
    )
    sources = make_sources(batches, options.steps)
    return (
        measure_training(model, sources, options),
        measure_feeding(batches),
    )


if __name__ == "__main__":
    main()
