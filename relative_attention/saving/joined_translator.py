"""One translator of several, which share their vocabularies."""

import pathlib
from collections.abc import Sequence

from relative_attention.data.same_vocabulary import is_same_vocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding import Ensemble
from relative_attention.decoding import Translator
from relative_attention.errors import InputError


def join_translators(
    translators: Sequence[Translator],
    names: Sequence[pathlib.Path | str],
) -> Translator:
    """Returns a translator whose model is an `Ensemble`.

    Args:
        translators: A list of `Translator`, at least one, each of one
            `Transformer`. How many beams there are and the like is as in the
            first.
        names: A list of strings, what they are called in an error.

    Raises:
        InputError: if two have not the same vocabularies, or start a
            translation with other ids; they are named.
    """
    first = translators[0]
    for translator, name in zip(translators[1:], names[1:]):
        _check_same(first, translator, (names[0], name))
    ensemble = Ensemble([translator.model for translator in translators])
    return Translator(**{**vars(first), "model": ensemble})


def _check_same(
    first: Translator,
    other: Translator,
    names: tuple[pathlib.Path | str, pathlib.Path | str],
) -> None:
    """Refuses translators whose ids stand for different pieces."""
    for side in ("source_vocabulary", "vocabulary"):
        # Both were loaded from a folder, and are of the kinds that those have.
        pair: tuple[AnyVocabulary, AnyVocabulary] = (
            getattr(first, side),
            getattr(other, side),
        )
        if not is_same_vocabulary(*pair):
            sizes = " and ".join(str(len(vocabulary)) for vocabulary in pair)
            raise InputError(
                "Models that translate together must have the same "
                f"vocabulary. Received: {names[0]} and "
                f"{names[1]}, whose vocabularies (of {sizes} pieces) differ. "
                "Train one with the vocabulary of the other, by "
                "`vocabulary.model`."
            )
    starts = [t.model.start_token_id for t in (first, other)]
    if starts[0] != starts[1]:
        raise InputError(
            "Models that translate together must start a translation with "
            f"the same id. Received: {names[0]} with {starts[0]}, {names[1]} "
            f"with {starts[1]}."
        )
