"""Checks that the parts of a task belong together."""

from typing import Any

from relative_attention.errors import InputError
from relative_attention.hub.translation_backbone import TranslationBackbone
from relative_attention.hub.translation_preprocessor import (
    TranslationPreprocessor,
)


def check_parts(backbone: Any, preprocessor: Any) -> None:
    """Raises `InputError` unless a preprocessor is that of a backbone.

    Args:
        backbone: what should be a `TranslationBackbone`.
        preprocessor: what should be a `TranslationPreprocessor`, or `None`.
            Its vocabularies may come later, and are not looked at then.
    """
    if not isinstance(backbone, TranslationBackbone):
        raise InputError(
            "`backbone` must be a TranslationBackbone. Received: "
            f"{type(backbone).__name__}."
        )
    if preprocessor is None:
        return
    if not isinstance(preprocessor, TranslationPreprocessor):
        raise InputError(
            "`preprocessor` must be a TranslationPreprocessor or None. "
            f"Received: {type(preprocessor).__name__}."
        )
    config = backbone.config
    source_tokenizer = preprocessor.source_tokenizer or preprocessor.tokenizer
    for side, tokenizer, size in (
        (
            "source",
            source_tokenizer,
            config.source_vocabulary_size or config.vocabulary_size,
        ),
        ("target", preprocessor.tokenizer, config.vocabulary_size),
    ):
        if tokenizer.proto is not None and tokenizer.vocabulary_size() != size:
            raise InputError(
                f"The tokenizer of the {side} has "
                f"{tokenizer.vocabulary_size()} pieces, the backbone {size}: "
                "they do not belong together."
            )
    if preprocessor.start_token_id != config.start_token_id:
        raise InputError(
            "The preprocessor starts translations with the id "
            f"{preprocessor.start_token_id}, the backbone with "
            f"{config.start_token_id}: they do not belong together."
        )
