"""What the benchmarks of training train: a corpus and a model.

TensorFlow is imported only where a model is made.
"""

import argparse
import os
import pathlib

import relative_attention as ra
from relative_attention.data.lines import find_text_file

# In tokens, ends of sentences included; leaves out hardly a pair of Multi30k.
MAX_LENGTH = 100


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Gives a command the option `--data`."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=os.environ.get("RELATIVE_ATTENTION_DATA"),
        help="folder with train.en and train.de, plain or .gz (default: the "
        "environment variable RELATIVE_ATTENTION_DATA)",
    )


def find_corpus(folder: str | None) -> "ra.ParallelCorpus":
    """Finds English to German training text in a folder.

    Args:
        folder: A path, or `None` where no option names one.

    Returns:
        A `ParallelCorpus`, checked.

    Raises:
        InputError: If there is no such folder or text.
    """
    if not folder:
        raise ra.InputError(
            "No corpus given. Pass `--data DIR`, or set the environment "
            "variable RELATIVE_ATTENTION_DATA to a folder with train.en and "
            "train.de, plain or .gz."
        )
    files = [
        find_text_file(pathlib.Path(folder, f"train.{side}").absolute())
        for side in ("en", "de")
    ]
    if None in files:
        raise ra.InputError(
            f"No train.en and train.de, plain or .gz, in the folder {folder}."
        )
    corpus = ra.ParallelCorpus(*map(str, files))
    corpus.check()
    return corpus


def prepare_corpus(
    corpus: "ra.ParallelCorpus",
    vocabulary_size: int,
    folder: str | pathlib.Path,
) -> tuple["ra.Vocabulary", "ra.TokenCorpus"]:
    """Learns a joint vocabulary and encodes the corpus, once a folder.

    Args:
        corpus: A `ParallelCorpus`.
        vocabulary_size: An integer.
        folder: The path of a folder for both.

    Returns:
        A pair of `Vocabulary` and `TokenCorpus`.
    """
    folder = pathlib.Path(folder)
    file = folder / "vocabulary.model"
    if not file.exists():
        lines = (line for pair in corpus for line in pair)
        ra.Vocabulary.train(lines, vocabulary_size).save(file)
    vocabulary = ra.Vocabulary.load(file)
    tokens = ra.TokenCorpus.prepare(
        corpus, vocabulary, vocabulary, MAX_LENGTH, folder / "tokens"
    )
    return vocabulary, tokens


def make_model(
    preset: str, vocabulary_size: int, dtype: str, **overrides: int
) -> "ra.Transformer":
    """Returns a preset's model, compiled as the package trains it.

    Args:
        preset: A string, one of `presets()`.
        vocabulary_size: An integer.
        dtype: A string, the dtype policy.
        **overrides: Fields of `TransformerConfig`.
    """
    from relative_attention.recipes.sections import TrainingSection
    from relative_attention.runs.run import compile_model

    model = ra.Transformer.from_preset(
        preset, vocabulary_size=vocabulary_size, dtype=dtype, **overrides
    )
    compile_model(model, TrainingSection(), total_steps=1)
    return model
