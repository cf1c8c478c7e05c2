"""The vocabularies in the folder of a trained model."""

import pathlib

from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import vocabulary_suffix
from relative_attention.errors import InputError


def load_vocabularies(directory):
    """Source and target vocabulary, the same object where it is joint.

    Each is a `Vocabulary` or, brought from tensor2tensor, a
    `SubwordVocabulary`, or, from OpenNMT-tf, a `TokenVocabulary`.

    Raises:
        InputError: if there is none.
    """
    directory = pathlib.Path(directory)
    joint = find_vocabulary(directory, "vocabulary")
    if joint is not None:
        return joint, joint
    vocabularies = tuple(
        find_vocabulary(directory, f"{side}_vocabulary")
        for side in ("source", "target")
    )
    if None in vocabularies:
        raise InputError(
            f"{directory} holds no vocabulary (vocabulary.model, "
            "vocabulary.subwords, vocabulary.tokens, or one of each side): it "
            "cannot translate strings. Train it here, or convert it with its "
            "vocabulary."
        )
    return vocabularies


def save_vocabularies(source_vocabulary, target_vocabulary, directory):
    """Write what `load_vocabularies` reads.

    Args:
        source_vocabulary, target_vocabulary: the same object where it is
            joint.
        directory: path of the folder.
    """
    names = {"vocabulary": target_vocabulary}
    if source_vocabulary is not target_vocabulary:
        names = {
            "source_vocabulary": source_vocabulary,
            "target_vocabulary": target_vocabulary,
        }
    for name, vocabulary in names.items():
        suffix = vocabulary_suffix(vocabulary)
        vocabulary.save(pathlib.Path(directory, name).with_suffix(suffix))


def find_vocabulary(directory, name):
    """The vocabulary of this name in a folder, or `None`."""
    for suffix, kind in VOCABULARY_KINDS.items():
        path = (directory / name).with_suffix(suffix)
        if path.is_file():
            return kind.load(path)
    return None
