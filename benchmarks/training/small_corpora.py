"""How good models of small corpora become, by warm-up, dropout and vocabulary.

The program trains `small_relative` on so many pairs of Tatoeba, chosen by hash
(results before 2026-11-29 are of the first pairs), with the values that the
recipe chooses, with three that differ from them in one value, and with fixed
ones. Every model has equally many updates, and then translates the validation
text. From the root of a checkout, with the package installed:

    python -m benchmarks.training.small_corpora --data ../shared/data \\
        --pairs 20000

A training that was stopped is resumed, and a finished one is not repeated.
"""

import argparse
import hashlib
import heapq
import pathlib

import relative_attention as ra
from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Row
from benchmarks.speed_tables import small_corpora_table
from relative_attention.data.lines import find_text_file
from relative_attention.errors import InputError
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_WARMUP, _DROPOUT, _PIECES = _KEYS = (
    "training.warmup_steps",
    "model.dropout",
    "vocabulary.size",
)


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains a model with each of the settings, and scores it."""
    load_tensorflow_quietly()
    recipe = ra.find_recipe("small_relative").replace(
        {
            **_some_pairs(options),
            "training.epochs": options.epochs,
            "training.steps": options.steps or None,
            "training.early_stopping": 0,
            "training.bleu_every": 0,
            "training.pictures": False,
        }
    )
    chosen = _train(recipe, "chosen", options)
    rows = [chosen]
    # With other pieces an epoch has more or fewer updates.
    recipe = recipe.replace(
        {
            **{key: chosen[key] for key in _KEYS},
            "training.steps": chosen["steps"],
            "training.epochs": None,
        }
    )
    warmup_steps, pieces = chosen[_WARMUP], chosen[_PIECES]
    for name, values in {
        "longer warm-up": {_WARMUP: 2 * warmup_steps},
        "other dropout": {_DROPOUT: 0.2},
        "other vocabulary": {_PIECES: 4000 if pieces != 4000 else 8000},
        "fixed": {_WARMUP: 2000, _DROPOUT: 0.1, _PIECES: 8000},
    }.items():
        show_progress(name)
        changed = recipe.replace(values)
        rows.append(_train(changed, name, options))
    show_progress()
    return rows


def _train(recipe: ra.Recipe, name: str, options: argparse.Namespace) -> Row:
    output = options.runs / f"{options.pairs}-{name.replace(' ', '-')}"
    results = ra.train(recipe, output, resume="auto", report=lambda _: None)
    used = ra.find_recipe(output).to_mapping()
    score = results["scores"]["validation"]
    values = {}
    for key in _KEYS:
        section, _, name_of_key = key.partition(".")
        values[key] = used[section][name_of_key]
    return {
        "setting": name,
        **values,
        "steps": results["steps"],
        "bleu": score["bleu"],
        "signature": score["bleu_signature"],
    }


def _some_pairs(options: argparse.Namespace) -> dict[str, str]:
    """Writes some pairs, and returns the paths of texts by recipe key.

    The pairs with the smallest hashes, as a text may be in any order, that of
    its archive for example.
    """
    corpus = options.data.resolve() / "tatoeba" / "en-de"
    options.runs.mkdir(parents=True, exist_ok=True)
    sides = {"source": "en", "target": "de"}
    texts: dict[str, str] = {}
    for part in ("train", "val"):
        for side, language in sides.items():
            found = find_text_file(corpus / f"{part}.{language}")
            if found is None:
                raise InputError(
                    f"{corpus} must have train.en, train.de, val.en and "
                    "val.de, plain or .gz, as `relative-attention data pairs` "
                    "makes them."
                )
            texts[f"{part}_{side}"] = found
    pairs = ra.ParallelCorpus(*(texts[f"train_{side}"] for side in sides))
    chosen = heapq.nsmallest(options.pairs, pairs, key=_hash)
    paths = {}
    for number, (side, language) in enumerate(sides.items()):
        path = options.runs.resolve() / f"{options.pairs}.{language}"
        lines = (f"{pair[number]}\n" for pair in chosen)
        path.write_text("".join(lines), "utf-8")
        paths[f"data.{side}"] = str(path)
        paths[f"data.validation_{side}"] = texts[f"val_{side}"]
    return paths


def _hash(pair: tuple[str, str]) -> bytes:
    return hashlib.blake2b("\t".join(pair).encode(), digest_size=16).digest()


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=pathlib.Path, required=True, metavar="DIR"
    )
    add_numbers(parser, pairs=20_000, epochs=30, steps=None)
    # Where the trainings are kept.
    parser.add_argument(
        "--runs",
        type=pathlib.Path,
        default=pathlib.Path("runs/small_corpora"),
        metavar="DIR",
    )


main = benchmark(
    "training.small_corpora",
    __doc__,
    "--data ../shared/data --pairs 20000",
    _add_arguments,
    measure,
    small_corpora_table,
    precision=lambda _: "auto",
)

if __name__ == "__main__":
    main()
