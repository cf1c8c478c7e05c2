"""A sentence and its translation as a model meets them: ids and pieces."""

from typing import TYPE_CHECKING
from typing import NamedTuple

import numpy as np

from relative_attention.models.decoder_inputs import decoder_inputs

if TYPE_CHECKING:
    from relative_attention.decoding import Translator
    from relative_attention.decoding.translation import TextVocabulary


class SentencePair(NamedTuple):
    """What is given to a model of one sentence, and what to call it.

    Attributes:
        source: list of strings, the pieces of the sentence and its end.
        target: list of strings, the pieces of the translation and its end:
            what the decoder answers at each position.
        inputs: dict of int32 arrays `(1, S)` and `(1, T)`, as of a call of
            the model.
    """

    source: list[str]
    target: list[str]
    inputs: dict[str, np.ndarray]


def sentence_pair(
    translator: "Translator", sentence: str, translation: str | None
) -> tuple[SentencePair, str]:
    """Encodes a sentence and its translation, for looking at.

    Args:
        translator: `Translator`.
        sentence: string.
        translation: string, or `None` for the one that `translator` finds.

    Returns:
        Pair of `SentencePair` and the translation.
    """
    if translation is None:
        (translation,) = translator.translate([sentence])
    vocabularies = (translator.source_vocabulary, translator.vocabulary)
    source_ids, target_ids = (
        np.array([*vocabulary.encode([text])[0], vocabulary.end_id], np.int32)
        for vocabulary, text in zip(vocabularies, (sentence, translation))
    )
    source, target = (
        _pieces(vocabulary, ids)
        for vocabulary, ids in zip(vocabularies, (source_ids, target_ids))
    )
    inputs = {
        "source_token_ids": source_ids[None],
        "target_token_ids": decoder_inputs(
            target_ids[None], translator.model.start_token_id
        ),
    }
    return SentencePair(source, target, inputs), translation


def _pieces(vocabulary: "TextVocabulary", token_ids: np.ndarray) -> list[str]:
    """Returns what each id stands for, as a reader knows it."""
    pieces = getattr(vocabulary, "pieces", None)
    if pieces is not None:
        return pieces(token_ids)
    # A translator asks no more of a vocabulary than to encode and decode.
    return vocabulary.decode([[int(token_id)] for token_id in token_ids])
