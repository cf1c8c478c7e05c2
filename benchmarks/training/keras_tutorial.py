"""The model of keras.io's tutorial and ours, trained for the same minutes.

The program trains a Transformer of KerasHub's layers, with the sizes and the
preparation of text of keras.io's tutorial "English-to-Spanish translation with
KerasHub", and `small_relative`, at the same time, each on half of the cores, on
the same text and in float32. Both translate the test text, the first by greedy
search, as in the tutorial, ours by beam search. From the root of a checkout on
Linux, with the package installed:

    python -m benchmarks.training.keras_tutorial --data DIR --minutes 90

`DIR` has `train`, `val` and `test` in both languages, such as `train.en`, as
`relative-attention data pairs` writes them.
"""

import argparse
import concurrent.futures
import os
import pathlib
from typing import Any

from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import Engine
from benchmarks.harness.engine import engine_command
from benchmarks.harness.engine import running_engines
from benchmarks.harness.results import Row
from benchmarks.speed_tables import keras_tutorial_table
from relative_attention.data.lines import find_text_file
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError

_ENGINES = ("tutorial", "ours")


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains both models, and scores them."""
    texts = {
        part: [_find(options.data, part, one) for one in options.languages]
        for part in ("train", "val", "test")
    }
    folder = options.runs.resolve() / str(options.minutes)
    folder.mkdir(parents=True, exist_ok=True)
    # What else the machine does takes the same share from both.
    cores = sorted(os.sched_getaffinity(0))
    share = max(len(cores) // 2, 1)
    module = "benchmarks.training.keras_tutorial_engine"
    commands = {
        name: engine_command(
            module,
            {
                "engine": name,
                "texts": texts,
                "minutes": options.minutes,
                "folder": str(folder),
                "cores": own_cores,
            },
        )
        for name, own_cores in zip(_ENGINES, (cores[:share], cores[-share:]))
    }
    # If one fails, the other is ended before its thread is waited for.
    with (
        concurrent.futures.ThreadPoolExecutor() as pool,
        running_engines(commands, folder, {}) as engines,
    ):
        figures = dict(
            zip(engines, pool.map(Engine.take_turn, engines.values()))
        )
        memory = {name: engines[name].finish() for name in engines}
    return [
        {
            "engine": name,
            "minutes": options.minutes,
            "cores": share,
            "memory": memory[name],
            **figures[name],
            **_scores(folder / f"{name}.txt", texts["test"][1]),
        }
        for name in _ENGINES
    ]


def _find(folder: pathlib.Path, part: str, language: str) -> str:
    path = find_text_file(folder.resolve() / f"{part}.{language}")
    if path is None:
        raise InputError(f"There is no {part}.{language} in {folder}.")
    return path


def _scores(hypotheses: pathlib.Path, reference: str) -> dict[str, Any]:
    # Here, as the memory of a process begins with that of its parent.
    from relative_attention.evaluation import corpus_scores

    found_lines, right = (
        list(read_lines(hypotheses)),
        list(read_lines(reference)),
    )
    scores: dict[str, Any] = {}
    for name, lowercase in (("", False), ("lowercased_", True)):
        found = corpus_scores(
            found_lines, right, ("bleu", "chrf"), lowercase=lowercase
        )
        for metric, score in found.items():
            scores[f"{name}{metric}"] = score.score
            scores[f"{name}{metric}_signature"] = score.signature
    return scores


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=pathlib.Path, required=True, metavar="DIR")
    add("--languages", nargs=2, default=("en", "es"), metavar="L")
    add("--minutes", type=float, default=30, help="default: %(default)s")
    # Where the trainings are kept.
    add(
        "--runs",
        type=pathlib.Path,
        default=pathlib.Path("runs/keras_tutorial"),
        metavar="DIR",
    )


main = benchmark(
    "training.keras_tutorial",
    __doc__,
    "--data ../shared/data/tatoeba/en-es --minutes 90",
    _add_arguments,
    measure,
    keras_tutorial_table,
)

if __name__ == "__main__":
    main()
