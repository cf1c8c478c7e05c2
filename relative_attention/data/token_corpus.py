"""A parallel corpus as token ids, which are kept on disk."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from typing import Any

import numpy as np

from relative_attention.data.encode_corpus import ARRAYS
from relative_attention.data.encode_corpus import array_checksum
from relative_attention.data.encode_corpus import encode_corpus
from relative_attention.data.length_order import LengthOrder
from relative_attention.data.length_order import order_by_length
from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import read_json_object

# Version of the files, and of how text is cleaned before it is encoded. Files
# of another version are rebuilt.
_FORMAT = 5
# The errors of reading a file that is cut or holds something else.
_DAMAGED = (OSError, EOFError, ValueError, TypeError, LookupError)


@dataclasses.dataclass(frozen=True)
class TokenCorpus:
    """Holds the token ids of sentence pairs, read from disk when needed.

    Each side has one flat array of ids, without ends of sentences, and the
    offset of each sentence in it. The arrays are memory-mapped, so they need no
    memory; the `length_order` needs 8 bytes per pair.

    For example, a source of two sentences with the ids 5, 6, 7 and 8, 9 has
    `source_ids = [5, 6, 7, 8, 9]` and `source_offsets = [0, 3, 5]`.

    Attributes:
        source_ids: int array, the ids of all source sentences, one sentence
            after another.
        source_offsets: int array `(num_pairs + 1,)`. Where each source
            sentence starts in `source_ids`, and where the last one ends.
        target_ids: int array, the ids of all target sentences.
        target_offsets: int array `(num_pairs + 1,)`, as `source_offsets`.
        line_numbers: int array `(num_pairs,)`. Line of each pair, from 1.
        num_empty: int. Pairs left out because a line was empty.
        num_too_long: int. Pairs left out because a line had too many tokens.
    """

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray
    line_numbers: np.ndarray
    num_empty: int
    num_too_long: int

    def __len__(self) -> int:
        """Returns the number of pairs."""
        return len(self.line_numbers)

    @property
    def source_lengths(self) -> np.ndarray:
        """The number of tokens of each source sentence, its end included."""
        return np.diff(self.source_offsets.astype(np.int64)) + 1

    @property
    def target_lengths(self) -> np.ndarray:
        """The number of tokens of each target sentence, its end included."""
        return np.diff(self.target_offsets.astype(np.int64)) + 1

    @functools.cached_property
    def length_order(self) -> LengthOrder:
        """The pairs sorted by length."""
        return order_by_length(self.source_lengths, self.target_lengths)

    @functools.cached_property
    def checksum(self) -> int:
        """The checksum of the ids of all pairs, in their order."""
        return array_checksum(
            getattr(self, name) for name in ARRAYS if name != "line_numbers"
        )

    def with_line_numbers(self, numbers: np.ndarray) -> "TokenCorpus":
        """Returns the same pairs with the line numbers of another text.

        For a text that is a selection of lines of another.

        Args:
            numbers: int array. For each line of the text, its line number in
                the other.

        Returns:
            `TokenCorpus`.
        """
        corpus = dataclasses.replace(
            self, line_numbers=np.asarray(numbers)[self.line_numbers - 1]
        )
        # The ids are the same, so they need not be read or sorted again.
        corpus.__dict__["length_order"] = self.length_order
        corpus.__dict__["checksum"] = self.checksum
        return corpus

    @classmethod
    def prepare(
        cls,
        corpus: ParallelCorpus,
        source_vocabulary: AnyVocabulary,
        target_vocabulary: AnyVocabulary,
        max_length: int,
        directory: pathlib.Path | str,
    ) -> "TokenCorpus":
        """Encodes a corpus, or reuses the encoded files.

        Args:
            corpus: `ParallelCorpus`. The two files to encode.
            source_vocabulary: `Vocabulary`, or another kind of vocabulary.
            target_vocabulary: `Vocabulary`, or another kind of vocabulary.
            max_length: int. Pairs with more tokens on either side, including
                the end of sentence, are left out and counted, as are pairs
                with an empty side.
            directory: path of a folder only for the arrays. Existing arrays
                are used if they were made from the same files (path, size,
                modification time), vocabularies and limit, and their checksum
                is right; otherwise they are replaced. A folder with other
                files is refused.

        Returns:
            `TokenCorpus`.

        Raises:
            InputError: if the corpus is unusable, see `ParallelCorpus.check`,
                or `directory` holds something else.
        """
        directory = pathlib.Path(directory)
        origin = _origin(
            corpus, source_vocabulary, target_vocabulary, max_length
        )
        # A full disk or a copy may have cut or changed a file: then all are
        # rebuilt.
        with contextlib.suppress(*_DAMAGED):
            if read_json_object(directory / "origin.json") == origin:
                return cls._load(directory)
        _check_replaceable(directory)
        corpus.check()
        with atomic_directory(directory) as folder:
            encode_corpus(
                corpus,
                (source_vocabulary, target_vocabulary),
                max_length,
                folder,
            )
            (folder / "origin.json").write_text(json.dumps(origin))
        return cls._load(directory)

    @staticmethod
    def is_made_of(
        corpus: ParallelCorpus, directory: pathlib.Path | str
    ) -> bool:
        """Returns whether `prepare` made a folder from exactly these files.

        If so, the files were checked, and have not changed since.

        Args:
            corpus: `ParallelCorpus`. The files, of which paths, sizes and
                modification times are compared.
            directory: path of the folder.
        """
        try:
            origin = read_json_object(pathlib.Path(directory) / "origin.json")
        except (OSError, ValueError):
            return False
        return origin.get("files") == _files(corpus)

    @classmethod
    def _load(cls, directory: pathlib.Path) -> "TokenCorpus":
        """Reads the arrays of a folder; raises one of `_DAMAGED` on failure."""
        counts = read_json_object(directory / "counts.json")
        checksum = counts.pop("checksum")
        arrays = {
            name: np.load(directory / f"{name}.npy", mmap_mode="r")
            for name in ARRAYS
        }
        tokens = cls(**arrays, **counts)
        if array_checksum([tokens.line_numbers], tokens.checksum) != checksum:
            raise ValueError("The arrays of a corpus were changed.")
        return tokens


def _check_replaceable(directory: pathlib.Path) -> None:
    """Raises `InputError` if a folder holds files other than the arrays."""
    is_cache = (directory / "origin.json").exists()
    if directory.exists() and not is_cache and any(directory.iterdir()):
        raise InputError(
            f"`directory` must be a folder for token ids alone: {directory} "
            "holds other files, which would be deleted. Choose another."
        )


def _origin(
    corpus: ParallelCorpus,
    source_vocabulary: AnyVocabulary,
    target_vocabulary: AnyVocabulary,
    max_length: int,
) -> dict[str, Any]:
    """Returns the inputs of the ids, in a form that JSON preserves."""
    return {
        "format": _FORMAT,
        "files": _files(corpus),
        "vocabularies": [
            hashlib.sha256(_content(vocabulary)).hexdigest()
            for vocabulary in (source_vocabulary, target_vocabulary)
        ],
        "max_length": max_length,
    }


def _content(vocabulary: AnyVocabulary) -> bytes:
    """Returns bytes that distinguish a vocabulary from all others."""
    # A vocabulary of a user's class must have a `model`, too.
    if hasattr(vocabulary, "model"):
        return vocabulary.model
    tokens = "\n".join(vocabulary.tokens).encode()
    tokenizer = vocabulary.tokenizer or b""
    return tokens + tokenizer + (b"start" if vocabulary.start else b"")


def _files(corpus: ParallelCorpus) -> list[list]:
    """Returns path, size and modification time of both files."""
    files = []
    for path in map(os.path.abspath, (corpus.source, corpus.target)):
        # If there is no such file, checking the corpus raises the right error.
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            files.append([path, stat.st_size, stat.st_mtime_ns])
    return files
