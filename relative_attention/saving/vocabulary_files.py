"""Reads and writes the vocabularies of a trained model."""

import pathlib

from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import vocabulary_suffix
from relative_attention.errors import InputError


def load_vocabularies(
    directory: pathlib.Path | str,
) -> tuple[AnyVocabulary, AnyVocabulary]:
    """Returns source and target vocabulary, one object where it is joint.

    Each is a `Vocabulary` or, brought from tensor2tensor, a
    `SubwordVocabulary`, or, from OpenNMT-tf, a `TokenVocabulary`.

    Args:
        directory: The path of the folder.

    Raises:
        InputError: if there is no vocabulary.
    """
    directory = pathlib.Path(directory)
    joint = find_vocabulary(directory, "vocabulary")
    if joint is not None:
        return joint, joint
    source = find_vocabulary(directory, "source_vocabulary")
    target = find_vocabulary(directory, "target_vocabulary")
    if source is None or target is None:
        raise InputError(
            f"{directory} holds no vocabulary (vocabulary.model, "
            "vocabulary.subwords, vocabulary.tokens, or one of each side): it "
            "cannot translate strings. Train it here, or convert it with its "
            "vocabulary."
        )
    return source, target


def save_vocabularies(
    source_vocabulary: AnyVocabulary,
    target_vocabulary: AnyVocabulary,
    directory: pathlib.Path | str,
) -> None:
    """Writes what `load_vocabularies` reads.

    Args:
        source_vocabulary: A vocabulary.
        target_vocabulary: A vocabulary, the same object where it is joint.
        directory: The path of the folder.
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


def find_vocabulary(directory: pathlib.Path, name: str) -> AnyVocabulary | None:
    """Returns the vocabulary of this name in a folder, or `None`.

    Args:
        directory: The path of the folder.
        name: The name of its file, without the suffix of its kind.
    """
    for suffix, kind in VOCABULARY_KINDS.items():
        path = (directory / name).with_suffix(suffix)
        if path.is_file():
            return kind.load(path)
    return None
