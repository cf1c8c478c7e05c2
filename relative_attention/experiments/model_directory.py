"""A trained model: one folder with all it needs."""

import dataclasses
import json
import pathlib

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import atomic_file
from relative_attention.atomic_files import recover_directory
from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import vocabulary_suffix
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.experiments.recipe import Recipe
from relative_attention.experiments.recipe_sections import DecodingSection
from relative_attention.experiments.zoo import find_model
from relative_attention.json_file import read_json_object
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.stored_weights import stored_weights
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays

_FORMAT = 2
_DTYPES = ("float32", "float16")


def save_config(config, decoding, directory):
    """Write the architecture and how to translate with it, `config.json`.

    Args:
        config: `TransformerConfig`.
        decoding: `DecodingSection`.
        directory: path of the folder.
    """
    with atomic_file(pathlib.Path(directory) / "config.json", "w") as file:
        json.dump(
            {
                "format": _FORMAT,
                "model": dataclasses.asdict(config),
                "decoding": dataclasses.asdict(decoding),
            },
            file,
            indent=1,
        )


def load_translator(directory, dtype="float32", **decoding):
    """Load a trained model, ready to translate.

    Args:
        directory: path of a folder that training or a conversion filled:
            `config.json`, `model.safetensors` and `vocabulary.model`,
            `vocabulary.subwords` or `vocabulary.tokens` (or two,
            `source_vocabulary` and `target_vocabulary`); or the name of a
            model that comes with the package.
        dtype: dtype policy of the model. Defaults to `"float32"`, whatever it
            was trained in.
        **decoding: arguments of `Translator` that are to differ from those of
            the recipe.

    Returns:
        `Translator`; its `model` is the `Transformer`.

    Raises:
        InputError: if a file is missing, damaged or does not fit the others.
    """
    recover_directory(directory)
    directory = find_model(directory)
    config, settings = load_config(directory)
    source_vocabulary, target_vocabulary = load_vocabularies(directory)
    for vocabulary, size in (
        (source_vocabulary, config.source_vocabulary_size),
        (target_vocabulary, config.vocabulary_size),
    ):
        if size is not None and len(vocabulary) != size:
            raise InputError(
                f"A vocabulary in {directory} has {len(vocabulary)} pieces, "
                f"the model {size}: they do not belong together."
            )
    model = Transformer(config, dtype=dtype)
    load_weights(model.weights, directory / "model.safetensors")
    return Translator(
        model,
        target_vocabulary,
        source_vocabulary=source_vocabulary,
        **{**dataclasses.asdict(settings), **decoding},
    )


def save_translator(translator, directory, dtype="float32"):
    """Write a folder that `load_translator` reads, whole or not at all.

    The folder holds a plain model: what `enable_lora` added to a layer is
    merged into its kernel.

    Args:
        translator: `Translator`. How many beams it has and the like is
            written too, but for `min_length` and `max_length`.
        directory: path of the folder to make.
        dtype: `"float32"` or `"float16"`, what the weights are stored as; in
            float16 the folder has half the size, and the weights have 11 bits.

    Raises:
        ValueError: if the dtype is another.
        InputError: if there is something at `directory`, a weight is not
            finite or too large for float16, or a layer is quantized.
    """
    if dtype not in _DTYPES:
        raise ValueError(
            f"`dtype` must be one of {_DTYPES}. Received: dtype={dtype!r}."
        )
    check_is_free(directory)
    fields = dataclasses.fields(DecodingSection)
    decoding = DecodingSection(
        **{field.name: getattr(translator, field.name) for field in fields}
    )
    arrays = stored_weights(translator.model, dtype)
    with atomic_directory(directory) as folder:
        save_config(translator.model.config, decoding, folder)
        save_vocabularies(
            translator.source_vocabulary, translator.vocabulary, folder
        )
        save_arrays(arrays, folder / "model.safetensors")


def check_is_free(output):
    """Raise `InputError` if there is something at `output`.

    An empty folder is nothing.
    """
    output = pathlib.Path(output)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(
            f"{output} is there already. Choose another folder, or delete it."
        )


def load_config(directory):
    """What `save_config` wrote.

    Returns:
        Pair of `TransformerConfig` and `DecodingSection`.

    Raises:
        InputError: if `config.json` is missing, damaged or of another format.
    """
    path = pathlib.Path(directory) / "config.json"
    try:
        content = read_json_object(path)
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
        return (
            TransformerConfig(**content["model"]),
            _decoding_section(content["decoding"]),
        )
    except KeyError as error:
        raise InputError(f"{path} is wrong: it lacks {error}.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is wrong: {error}") from error


def _decoding_section(mapping):
    # A recipe knows of each value what it may be.
    return Recipe.from_mapping(
        {
            "name": "any",
            "model": {"preset": "transformer_tiny"},
            "training": {"steps": 1},
            "decoding": mapping,
        }
    ).decoding


def load_vocabularies(directory):
    """Source and target vocabulary, the same object where it is joint.

    Each is a `Vocabulary` or, brought from tensor2tensor, a
    `SubwordVocabulary`, or, from OpenNMT-tf, a `TokenVocabulary`.

    Raises:
        InputError: if there is none.
    """
    directory = pathlib.Path(directory)
    joint = find_vocabulary(directory, "vocabulary")
    if joint is not None:
        return joint, joint
    vocabularies = tuple(
        find_vocabulary(directory, f"{side}_vocabulary")
        for side in ("source", "target")
    )
    if None in vocabularies:
        raise InputError(
            f"{directory} holds no vocabulary (vocabulary.model, "
            "vocabulary.subwords, vocabulary.tokens, or one of each side): it "
            "cannot translate strings. Train it here, or convert it with its "
            "vocabulary."
        )
    return vocabularies


def save_vocabularies(source_vocabulary, target_vocabulary, directory):
    """Write what `load_vocabularies` reads.

    Args:
        source_vocabulary, target_vocabulary: the same object where it is
            joint.
        directory: path of the folder.
    """
    names = {"vocabulary": target_vocabulary}
    if source_vocabulary is not target_vocabulary:
        names = {
            "source_vocabulary": source_vocabulary,
            "target_vocabulary": target_vocabulary,
        }
    for name, vocabulary in names.items():
        suffix = vocabulary_suffix(vocabulary)
        vocabulary.save(pathlib.Path(directory, name).with_suffix(suffix))


def find_vocabulary(directory, name):
    """The vocabulary of this name in a folder, or `None`."""
    for suffix, kind in VOCABULARY_KINDS.items():
        path = (directory / name).with_suffix(suffix)
        if path.is_file():
            return kind.load(path)
    return None
