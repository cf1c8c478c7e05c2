"""Lists the kinds of vocabularies, by the suffixes of their files."""

from typing import TypeAlias

from relative_attention.data.subword_vocabulary import SubwordVocabulary
from relative_attention.data.token_vocabulary import TokenVocabulary
from relative_attention.data.vocabulary import Vocabulary

AnyVocabulary: TypeAlias = Vocabulary | SubwordVocabulary | TokenVocabulary

# The suffix that a file of this kind has in a model directory.
VOCABULARY_KINDS: dict[str, type[AnyVocabulary]] = {
    ".model": Vocabulary,
    ".subwords": SubwordVocabulary,
    ".tokens": TokenVocabulary,
}


def vocabulary_suffix(vocabulary: AnyVocabulary) -> str:
    """Returns the suffix of a file that holds a vocabulary of this kind."""
    return next(
        suffix
        for suffix, kind in VOCABULARY_KINDS.items()
        if isinstance(vocabulary, kind)
    )
