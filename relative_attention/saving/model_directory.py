"""Loads and saves a trained model: one folder with all it needs."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import recover_directory
from relative_attention.check_is_free import check_is_free
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding import Ensemble
from relative_attention.decoding import Translator
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models.stored_weights import stored_weights
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.saving.joined_translator import join_translators
from relative_attention.saving.model_config import load_config
from relative_attention.saving.model_config import save_config
from relative_attention.saving.vocabulary_files import load_vocabularies
from relative_attention.saving.vocabulary_files import save_vocabularies
from relative_attention.saving.zoo import find_model

_DTYPES = ("float32", "float16")


def load_translator(
    directory: pathlib.Path | str | Sequence[pathlib.Path | str],
    dtype: str = "float32",
    **decoding: Any,
) -> Translator:
    """Loads a trained model, or several as one, ready to translate.

    Args:
        directory: The path of a folder that training or a conversion filled:
            `config.json`, `model.safetensors` and `vocabulary.model`,
            `vocabulary.subwords` or `vocabulary.tokens` (or two,
            `source_vocabulary` and `target_vocabulary`); or the name of a
            model that comes with the package. Or a list of these: models with
            the same vocabulary, which translate together as an `Ensemble`,
            with the beams and the like of the first.
        dtype: The dtype policy of the model. Defaults to `"float32"`,
            whatever it was trained in.
        **decoding: Arguments of `Translator` that are to differ from those
            of the recipe.

    Returns:
        A `Translator`; its `model` is the `Transformer`, or the `Ensemble` if
        there are several.

    Raises:
        InputError: if a file is missing, damaged or does not fit the others,
            or models have not the same vocabulary; or if the list is empty.
    """
    if isinstance(directory, pathlib.Path | str):
        return _load_one(directory, dtype, decoding)
    if not directory:
        raise InputError(
            "`directory` must name at least one trained model. Received: "
            f"{directory!r}."
        )
    translators = [_load_one(name, dtype, decoding) for name in directory]
    if len(translators) == 1:
        return translators[0]
    return join_translators(translators, directory)


def _load_one(
    directory: pathlib.Path | str, dtype: str, decoding: dict[str, Any]
) -> Translator:
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
            finite or too large for float16, a layer is quantized, or the
            model is an `Ensemble`.
    """
    if isinstance(translator.model, Ensemble):
        raise InputError(
            "A folder holds one `Transformer`. Received: an `Ensemble` of "
            f"{len(translator.model.models)}. Save each, and give "
            "`load_translator` the list of folders."
        )
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
        # A translator takes any vocabulary; one of another class has no suffix.
        source, target = (
            cast(AnyVocabulary, vocabulary)
            for vocabulary in (
                translator.source_vocabulary,
                translator.vocabulary,
            )
        )
        save_vocabularies(source, target, folder)
        save_arrays(arrays, folder / "model.safetensors")
