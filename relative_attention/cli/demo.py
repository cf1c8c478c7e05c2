"""Generates a corpus, trains on it and translates, in a few minutes."""

import pathlib
from collections.abc import Sequence

from relative_attention.corpora.spoken_numbers import write_spoken_numbers
from relative_attention.errors import InputError
from relative_attention.evaluation import corpus_bleu
from relative_attention.plot import model_picture
from relative_attention.recipes.recipe import find_recipe
from relative_attention.runs.run import train
from relative_attention.runs.run_directory import is_run
from relative_attention.saving.model_directory import load_translator

_RECIPE = "spoken_numbers_tiny_relative"
_NUM_EXAMPLES = 10


def _check_is_ours(output: pathlib.Path) -> None:
    """Refuses a folder with other files than those of an earlier demo."""
    model = output / "model"
    is_demo = is_run(model) and find_recipe(model).name == _RECIPE
    if not is_demo and output.exists() and any(output.iterdir()):
        raise InputError(
            f"{output} holds other files than an earlier demo. Give a new "
            "folder by `--output`, or delete it."
        )


def run_demo(
    output: pathlib.Path | str,
    languages: Sequence[str],
    overrides: Sequence[str],
) -> None:
    """Generates a corpus, trains on it, and translates held-out lines.

    `output` gets corpus, model and picture; an earlier demo is replaced.
    """
    output = pathlib.Path(output)
    recipe = find_recipe(_RECIPE).override(overrides)
    # Before anything is written: what is there is replaced below.
    _check_is_ours(output)
    corpora = write_spoken_numbers(output / "corpus", languages)
    prefixes = {"train": "", "validation": "validation_", "test": "test_"}
    files = {
        f"data.{prefix}{side}": getattr(corpora[part], side)
        for part, prefix in prefixes.items()
        for side in ("source", "target")
    }
    train(recipe.replace(files), output / "model", overwrite=True)
    translator = load_translator(output / "model")
    sources, references = (list(side) for side in zip(*corpora["test"]))
    # Each line of this corpus is one sentence.
    hypotheses = [one.text for one in translator.search(sources)]
    for triple in list(zip(sources, references, hypotheses))[:_NUM_EXAMPLES]:
        for name, line in zip(("source", "reference", "translation"), triple):
            print(f"{name:>11}  {line}")
        print()
    picture = output / "attention.png"
    model_picture(translator, sources[0], picture)
    print(f"held-out {corpus_bleu(hypotheses, references)}")
    print(f"model: {output / 'model'}")
    print(f"attention and relation embeddings: {picture}")
