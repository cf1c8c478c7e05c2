"""Loads vocabularies of one's own that a recipe names."""

import pathlib
from collections.abc import Mapping

from relative_attention.corpora.recipe_text import find_file
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.runs.recipe import Recipe
from relative_attention.saving.model_directory import find_vocabulary

_KEYS = ("model", "source_model", "target_model")


def named_vocabularies(
    recipe: Recipe,
    data_directory: pathlib.Path | str | None = None,
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Finds the files that a recipe's `vocabulary` names.

    Args:
        recipe: A `Recipe`.
        data_directory: The path of a folder, see `find_corpus`.
        known: A dict of strings, see `find_corpus`.

    Returns:
        A dict of strings, name and path, in the order source, target; empty
        where the vocabulary is to be learnt.

    Raises:
        InputError: if one is not found.
    """
    names = [getattr(recipe.vocabulary, key) for key in _KEYS]
    return {
        name: (known or {}).get(name)
        or find_file(name, recipe.data, data_directory)
        for name in names
        if name is not None
    }


def load_given(
    recipe: Recipe,
    paths: Mapping[str, str],
    output: pathlib.Path | str,
    resume: bool = False,
) -> tuple[AnyVocabulary, AnyVocabulary] | None:
    """Loads what `named_vocabularies` found.

    Args:
        recipe: A `Recipe`.
        paths: A dict, what `named_vocabularies` returned.
        output: The path of the run.
        resume: A boolean to indicate whether to go on with that run, which
            needs no other vocabulary than its own.

    Returns:
        A pair of source and target vocabulary, the same object where it is
        joint, or `None` where the recipe names no vocabulary.

    Raises:
        InputError: if a file is no vocabulary.
    """
    if not paths:
        return None
    name = "vocabulary" if recipe.vocabulary.joint else "target_vocabulary"
    if resume and find_vocabulary(pathlib.Path(output), name) is not None:
        return None
    load = (
        TokenVocabulary.from_opennmt_tf
        if recipe.data.tokenized
        else Vocabulary.from_sentencepiece
    )
    vocabularies = [load(path) for path in paths.values()]
    if not recipe.vocabulary.joint and len(vocabularies) == 1:
        # The same file for both, as two vocabularies.
        vocabularies += [load(path) for path in paths.values()]
    return vocabularies[0], vocabularies[-1]
