"""Tells whether two vocabularies are one."""

from relative_attention.data.vocabulary_kinds import AnyVocabulary

# What decides how a vocabulary of any kind cuts a text, and into which ids.
_CONTENT = ("model", "tokens", "tokenizer", "start", "end")


def is_same_vocabulary(one: AnyVocabulary, other: AnyVocabulary) -> bool:
    """Returns whether two vocabularies are of one kind and content.

    Vocabularies of one size are not enough: their ids would stand for other
    pieces.

    Args:
        one: A vocabulary.
        other: A vocabulary.
    """
    return one is other or (
        type(one) is type(other)
        and all(
            getattr(one, name, None) == getattr(other, name, None)
            for name in _CONTENT
        )
    )
