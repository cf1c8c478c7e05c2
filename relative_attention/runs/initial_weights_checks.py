"""Checks that a recipe can start from a trained model."""

import dataclasses
import pathlib
from typing import Any

from relative_attention.data import SubwordVocabulary
from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig
from relative_attention.positions import POSITION_ENCODINGS
from relative_attention.runs.recipe import Recipe

# What a model may have otherwise than the one that it starts from.
_MAY_DIFFER = (
    "vocabulary_size",
    "source_vocabulary_size",
    "dropout",
    "attention_dropout",
    "intermediate_dropout",
    "implementation",
)


def check_vocabulary(
    directory: pathlib.Path,
    vocabulary: AnyVocabulary,
    keeps: bool,
    tokenized: bool,
) -> None:
    """Raises `InputError` unless a vocabulary can be kept, or its rows can.

    Args:
        directory: The path of the model to start from, for the error.
        vocabulary: One of its vocabularies.
        keeps: A boolean to indicate whether the new model has it, too; else
            rows of pieces that both have are kept.
        tokenized: A boolean to indicate whether texts are tokenised already.
    """
    if keeps and tokenized:
        _check_tokens(directory, vocabulary)
        return
    if isinstance(vocabulary, TokenVocabulary):
        if keeps:
            raise InputError(
                f"The vocabulary of {directory} is a list of tokens, which "
                "training reads only where texts are tokenised already "
                "(`data.tokenized`). Set `vocabulary.from_start: false` to "
                "learn a new one; the rows of the pieces that both have are "
                "kept."
            )
        if vocabulary.tokenizer is None:
            raise InputError(
                f"The vocabulary of {directory} is a list of words without a "
                "SentencePiece model: its words are no pieces, and no rows "
                "could be kept. Convert the model with `--tokenizer`, or "
                "start from another."
            )
    if isinstance(vocabulary, SubwordVocabulary) and not keeps:
        raise InputError(
            f"The vocabulary of {directory} has the subwords of tensor2tensor, "
            "which mark where words end; the pieces of a new one mark where "
            "they begin, so no rows could be kept. Set "
            "`vocabulary.from_start: true` to train with the subwords."
        )


def check_architecture(
    recipe: Recipe,
    directory: pathlib.Path,
    config: TransformerConfig,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
) -> None:
    """Raises `InputError` unless a model has the architecture of a recipe.

    Args:
        recipe: A `Recipe`.
        directory: The path of the model to start from, for the error.
        config: Its `TransformerConfig`.
        vocabularies: Its vocabularies, the same object where it is joint.
    """
    is_joint = vocabularies[0] is vocabularies[1]
    if recipe.vocabulary.joint != is_joint:
        raise InputError(
            f"`vocabulary.joint` is {recipe.vocabulary.joint} in the recipe "
            f"and {is_joint} in {directory}, the model to start from. Set "
            f"`vocabulary.joint={str(is_joint).lower()}`."
        )
    size = config.vocabulary_size
    source_size = None if is_joint else config.source_vocabulary_size or size
    now = _architecture(recipe.model_config(size, source_size))
    before = _architecture(config)
    different = [name for name in before if before[name] != now[name]]
    if different:
        raise InputError(
            f"The model of the recipe is not that of {directory}, the model "
            "to start from: "
            + "; ".join(
                f"`model.{name}` is {now[name]!r} in the recipe and "
                f"{before[name]!r} there"
                for name in different
            )
            + ". Give the recipe the same values, or train without "
            "`training.start_from`."
        )


def _check_tokens(directory: pathlib.Path, vocabulary: AnyVocabulary) -> None:
    """Raises unless texts that are tokenised already can be read with it."""
    if (
        not isinstance(vocabulary, TokenVocabulary)
        or vocabulary.tokenizer is not None
        or vocabulary.start
        or not vocabulary.end
    ):
        raise InputError(
            f"The texts are tokenised already (`data.tokenized`), and the "
            f"vocabulary of {directory} is no list of tokens with an end of "
            "sentence. Give texts that are not tokenised, or train without "
            "`training.start_from`."
        )


def _architecture(config: TransformerConfig) -> dict[str, Any]:
    """Returns the fields of a config that decide what its weights mean."""
    fields = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if name not in _MAY_DIFFER
    }
    # What is left to follow from another field is as good as written down.
    fields["key_dim"] = config.head_dim
    fields["value_dim"] = config.value_dim or config.head_dim
    # A field without effect may have any value.
    unused = set().union(*map(_position_fields, POSITION_ENCODINGS))
    unused -= _position_fields(config.position_encoding)
    return {
        name: None if name in unused else value
        for name, value in fields.items()
    }


def _position_fields(name: str | None) -> set[str]:
    """Returns the fields of a config that a position encoding uses."""
    names = POSITION_ENCODINGS[name]
    fields = set(names.attention_class().config_fields)
    on_embeddings = names.embedding_class()
    if on_embeddings is not None:
        fields |= {*on_embeddings.config_fields, "first_position"}
    return fields
