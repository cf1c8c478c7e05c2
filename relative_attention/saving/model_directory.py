"""Loads and saves a trained model: one folder with all it needs."""

import dataclasses
import pathlib
from typing import Any

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import recover_directory
from relative_attention.check_is_free import check_is_free
from relative_attention.decoding import Translator
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models.stored_weights import stored_weights
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.saving.model_config import load_config
from relative_attention.saving.model_config import save_config
from relative_attention.saving.vocabulary_files import load_vocabularies
from relative_attention.saving.vocabulary_files import save_vocabularies
from relative_attention.saving.zoo import find_model

_DTYPES = ("float32", "float16")


def load_translator(
    directory: pathlib.Path | str, dtype: str = "float32", **decoding: Any
) -> Translator:
    """Loads a trained model, ready to translate.

    Args:
        directory: The path of a folder that training or a conversion filled:
            `config.json`, `model.safetensors` and `vocabulary.model`,
            `vocabulary.subwords` or `vocabulary.tokens` (or two,
            `source_vocabulary` and `target_vocabulary`); or the name of a
            model that comes with the package.
        dtype: The dtype policy of the model. Defaults to `"float32"`,
            whatever it was trained in.
        **decoding: Arguments of `Translator` that are to differ from those
            of the recipe.

    Returns:
        A `Translator`; its `model` is the `Transformer`.

    Raises:
        InputError: if a file is missing, damaged or does not fit the others.
    """
    # A writer may have been killed between two renames.
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


def save_translator(
    translator: Translator,
    directory: pathlib.Path | str,
    dtype: str = "float32",
) -> None:
    """Writes a folder that `load_translator` reads, whole or not at all.

    The folder holds a plain model: what `enable_lora` added to a layer is
    merged into its kernel.

    Args:
        translator: A `Translator`. How many beams it has and the like is
            written too, but for `min_length` and `max_length`.
        directory: The path of the folder to make.
        dtype: `"float32"` or `"float16"`, what the weights are stored as; in
            float16 the folder has half the size, and the weights have 11
            bits. Defaults to `"float32"`.

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
