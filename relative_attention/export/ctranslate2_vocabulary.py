"""Writes vocabularies as CTranslate2 wants them: tokens in order of ids."""

import pathlib
from collections.abc import Iterable
from typing import Any

import sentencepiece

from relative_attention.data import SubwordVocabulary
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import vocabulary_suffix
from relative_attention.errors import InputError

_END_ID = 1


def check_vocabulary(side: str, vocabulary: Any, size: int) -> AnyVocabulary:
    """Returns a vocabulary, unless it has no pieces or is another model's.

    Args:
        side: string. `"source"` or `"target"`, for the error.
        vocabulary: the vocabulary to check.
        size: int. The number of tokens that the model knows.

    Raises:
        InputError: if `vocabulary` is no vocabulary or has another size.
    """
    known = tuple(VOCABULARY_KINDS.values())
    if not isinstance(vocabulary, known):
        kinds = ", ".join(f"`{kind.__name__}`" for kind in known)
        raise InputError(
            f"The {side} vocabulary must be one of {kinds}, whose pieces are "
            f"strings. Received: {type(vocabulary).__name__}."
        )
    if len(vocabulary) != size:
        raise InputError(
            f"The {side} vocabulary has {len(vocabulary)} pieces, the model "
            f"{size}: they do not belong together."
        )
    return vocabulary


def describe_vocabularies(
    spec: Any, source: AnyVocabulary, target: AnyVocabulary, start_token_id: int
) -> None:
    """Tells CTranslate2 the tokens of both sides, and which are special.

    Args:
        spec: `ctranslate2.specs.TransformerSpec`.
        source: vocabulary.
        target: vocabulary.
        start_token_id: int. The id that the decoder's inputs start with.
    """
    tokens = _unique_tokens(target)
    source_tokens = _unique_tokens(source)
    config = spec.config
    config.decoder_start_token = tokens[start_token_id]
    config.eos_token = tokens[_END_ID]
    config.unk_token = tokens[_unknown_id(target)]
    # The unknown token and the end have one name for both sides.
    source_tokens[_unknown_id(source)] = config.unk_token
    if source.end_id == _END_ID:
        source_tokens[_END_ID] = config.eos_token
    # A source begins and ends with what every source of the training did.
    config.add_source_eos = source.end_id == _END_ID
    config.add_source_bos = False
    config.bos_token = config.decoder_start_token
    if isinstance(source, TokenVocabulary) and source.start:
        config.add_source_bos = True
        config.bos_token = source_tokens[source.start_id]
    spec.register_source_vocabulary(source_tokens)
    spec.register_target_vocabulary(tokens)


def save_vocabularies(
    folder: pathlib.Path, source: AnyVocabulary, target: AnyVocabulary
) -> None:
    """Writes the vocabularies' own files, named as in a model directory."""
    suffix = vocabulary_suffix(target)
    if _content(source) == _content(target):
        target.save(folder / f"vocabulary{suffix}")
        return
    target.save(folder / f"target_vocabulary{suffix}")
    source.save(folder / f"source_vocabulary{vocabulary_suffix(source)}")


def _unique_tokens(vocabulary: AnyVocabulary) -> list[str]:
    """Returns the pieces in the order of ids, no two of them equal.

    CTranslate2 finds ids by token. A file of subwords may have empty lines,
    and equal ones, of which the last is used (the first, of tokens). A piece
    that is never used is called by its id, such as `<unused 17>`.
    """
    tokens = vocabulary.pieces(range(len(vocabulary)))
    order: Iterable[int] = range(len(tokens))
    if isinstance(vocabulary, SubwordVocabulary):
        order = reversed(range(len(tokens)))
    taken = {""}
    for token_id in order:
        if tokens[token_id] in taken:
            tokens[token_id] = _unused_name(token_id, tokens)
        taken.add(tokens[token_id])
    return tokens


def _unused_name(token_id: int, tokens: list[str]) -> str:
    """Returns a name for an id, one that no token has."""
    name = f"<unused {token_id}>"
    while name in tokens:
        name = f"<{name}>"
    return name


def _unknown_id(vocabulary: AnyVocabulary) -> int:
    """Returns the id that stands for a token the vocabulary does not have."""
    if isinstance(vocabulary, TokenVocabulary):
        return len(vocabulary) - 1
    if isinstance(vocabulary, Vocabulary):
        processor = sentencepiece.SentencePieceProcessor(
            model_proto=vocabulary.model
        )
        return processor.unk_id()
    # Subwords spell whatever there is. The padding embeds to zero.
    return vocabulary.padding_id


def _content(vocabulary: AnyVocabulary) -> tuple:
    """Returns a key that two vocabularies share when they are the same."""
    if isinstance(vocabulary, TokenVocabulary):
        return (
            vocabulary.tokens,
            vocabulary.tokenizer,
            vocabulary.start,
            vocabulary.end,
        )
    return type(vocabulary), vocabulary.model
