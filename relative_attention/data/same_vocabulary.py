"""Tells whether two vocabularies are one."""

from relative_attention.data.sentencepiece_ids import with_our_ids
from relative_attention.data.vocabulary import Vocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary

# What decides how a vocabulary of the other kinds cuts a text, and into which
# ids.
_CONTENT = ("model", "tokens", "tokenizer", "start", "end")


def is_same_vocabulary(one: AnyVocabulary, other: AnyVocabulary) -> bool:
    """Returns whether two vocabularies are of one kind and content.

    Vocabularies of one size are not enough: their ids would stand for other
    pieces.

    Args:
        one: A vocabulary.
        other: A vocabulary.
    """
    if one is other:
        return True
    if isinstance(one, Vocabulary) and isinstance(other, Vocabulary):
        return one.model == other.model or _written(one) == _written(other)
    return type(one) is type(other) and all(
        getattr(one, name, None) == getattr(other, name, None)
        for name in _CONTENT
    )


def _written(vocabulary: Vocabulary) -> bytes:
    """Returns the model as `Vocabulary.from_sentencepiece` writes it.

    It has the pieces, scores and ids of the one that it read, but may name
    ids that were left at their default.
    """
    return with_our_ids(vocabulary.model, "the vocabulary")
