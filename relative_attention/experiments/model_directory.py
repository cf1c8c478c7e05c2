"""A trained model: one folder with all it needs."""

import dataclasses
import json
import pathlib

from relative_attention.atomic_files import atomic_file
from relative_attention.data import Vocabulary
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.experiments.recipe import Recipe
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.weights import load_weights

_FORMAT = 1


def save_config(config, directory):
    """Write the architecture of a model, as `config.json`."""
    with atomic_file(pathlib.Path(directory) / "config.json", "w") as file:
        json.dump(
            {"format": _FORMAT, "model": dataclasses.asdict(config)},
            file,
            indent=1,
        )


def load_translator(directory, dtype="float32", **decoding):
    """Load a trained model, ready to translate.

    Args:
        directory: path of a folder that training filled: `config.json`,
            `model.safetensors`, `vocabulary.model` (or
            `source_vocabulary.model` and `target_vocabulary.model`) and
            `recipe.yaml`.
        dtype: dtype policy of the model. Defaults to `"float32"`, whatever it
            was trained in.
        **decoding: arguments of `Translator` that are to differ from the
            recipe's.

    Returns:
        `Translator`; its `model` is the `Transformer`.

    Raises:
        InputError: if a file is missing, damaged or does not fit the others.
    """
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        raise InputError(f"No model directory at {directory}.")
    config = load_config(directory)
    source_vocabulary, target_vocabulary = load_vocabularies(directory)
    if len(target_vocabulary) != config.vocabulary_size:
        raise InputError(
            f"The vocabulary in {directory} has {len(target_vocabulary)} "
            f"pieces, the model {config.vocabulary_size}: they do not belong "
            "together."
        )
    recipe = Recipe.load(directory / "recipe.yaml")
    model = Transformer(config, dtype=dtype)
    load_weights(model.weights, directory / "model.safetensors")
    settings = {**dataclasses.asdict(recipe.decoding), **decoding}
    return Translator(
        model,
        target_vocabulary,
        source_vocabulary=source_vocabulary,
        **settings,
    )


def load_config(directory):
    """The `TransformerConfig` of a model directory.

    Raises:
        InputError: if `config.json` is missing, damaged or of another format.
    """
    path = pathlib.Path(directory) / "config.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{directory} is no model directory: {error}."
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    if content.get("format") != _FORMAT:
        raise InputError(
            f"{path} has format {content.get('format')!r}; this version "
            f"reads format {_FORMAT}."
        )
    try:
        return TransformerConfig(**content["model"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is wrong: {error}") from error


def load_vocabularies(directory):
    """Source and target `Vocabulary`, the same object where it is joint."""
    directory = pathlib.Path(directory)
    joint = directory / "vocabulary.model"
    if joint.is_file():
        vocabulary = Vocabulary.load(joint)
        return vocabulary, vocabulary
    return (
        Vocabulary.load(directory / "source_vocabulary.model"),
        Vocabulary.load(directory / "target_vocabulary.model"),
    )
