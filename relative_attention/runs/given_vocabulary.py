"""Vocabularies of one's own, named in a recipe."""

import pathlib

from relative_attention.corpora.find_corpus import find_file
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.saving.vocabulary_files import find_vocabulary

_KEYS = ("model", "source_model", "target_model")


def named_vocabularies(recipe, data_directory=None, known=None):
    """The files that a recipe's `vocabulary` names, and where they are.

    Args:
        recipe: `Recipe`.
        data_directory, known: see `find_corpus`.

    Returns:
        Dict of strings, name and path, in the order source, target; empty
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


def load_given(recipe, paths, output, resume=False):
    """Load what `named_vocabularies` found.

    Args:
        recipe: `Recipe`.
        paths: what `named_vocabularies` returned.
        output: path of the run.
        resume: bool. Whether to go on with that run, which needs no other
            vocabulary than its own.

    Returns:
        Pair of source and target vocabulary, the same object where it is
        joint, or `None` where none is given.

    Raises:
        InputError: if one is no vocabulary.
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
        vocabularies.append(load(*paths.values()))
    return vocabularies[0], vocabularies[-1]
