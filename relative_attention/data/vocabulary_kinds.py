"""Lists the kinds of vocabularies, and tells whether two are the same."""

from typing import Any
from typing import TypeAlias

from relative_attention.data.subword_vocabulary import SubwordVocabulary
from relative_attention.data.token_vocabulary import TokenVocabulary
from relative_attention.data.vocabulary import Vocabulary
from relative_attention.data.vocabulary import with_our_ids
from relative_attention.errors import InputError

AnyVocabulary: TypeAlias = Vocabulary | SubwordVocabulary | TokenVocabulary

# The file suffix of each kind in a model directory.
VOCABULARY_KINDS: dict[str, type[AnyVocabulary]] = {
    ".model": Vocabulary,
    ".subwords": SubwordVocabulary,
    ".tokens": TokenVocabulary,
}


def vocabulary_suffix(vocabulary: AnyVocabulary) -> str:
    """Returns the suffix of a file that holds a vocabulary of this kind."""
    for suffix, kind in VOCABULARY_KINDS.items():
        if isinstance(vocabulary, kind):
            return suffix
    known = ", ".join(kind.__name__ for kind in VOCABULARY_KINDS.values())
    raise InputError(
        f"A folder holds a vocabulary of one of the classes {known}. "
        f"Received: {vocabulary!r}."
    )


# The attributes that decide how a vocabulary of the other kinds splits a text,
# and into which ids.
_CONTENT = ("model", "tokens", "tokenizer", "start", "end")


def is_same_vocabulary(one: AnyVocabulary, other: AnyVocabulary) -> bool:
    """Returns whether two vocabularies have the same ids for every text."""
    if one is other:
        return True
    if isinstance(one, Vocabulary) and isinstance(other, Vocabulary):
        return one.model == other.model or _written(one) == _written(other)
    return type(one) is type(other) and all(
        getattr(one, name, None) == getattr(other, name, None)
        for name in _CONTENT
    )


def check_vocabulary_fits(
    side: str,
    num_pieces: int,
    config: Any,
    where: str = "",
    kind: str = "pieces",
) -> None:
    """Refuses a vocabulary of another size than a model's embedding.

    Args:
        side: `"source"` or `"target"`.
        num_pieces: The size of the vocabulary.
        config: The `TransformerConfig` of the model.
        where: Where the vocabulary is, such as `" in FOLDER"`.
        kind: What the vocabulary has.
    """
    size = config.vocabulary_size
    if side == "source":
        size = config.source_vocabulary_size or size
    if num_pieces != size:
        raise InputError(
            f"The {side} vocabulary{where} has {num_pieces} {kind}, the model "
            f"{size}: they do not belong together."
        )


def _written(vocabulary: Vocabulary) -> bytes:
    # The model as `Vocabulary.from_sentencepiece` writes it, with ids that may
    # otherwise be implied by defaults.
    return with_our_ids(vocabulary.model, "the vocabulary")
