"""A parallel corpus as token ids, which are kept on disk.

A folder holds an array per file, as its bytes alone; `counts.json` has their
types and their checksum, and `origin.json` what they were made of.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import zlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.lines import batched
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import read_json_object
from relative_attention.models.config import END_ID
from relative_attention.text.form import clean_text

# Version of the files, and of how text is cleaned before it is encoded. Files
# of another version are rebuilt.
_FORMAT = 9
# The errors of reading a file that is cut or holds something else.
_DAMAGED = (OSError, EOFError, ValueError, TypeError, LookupError)

_SIDES = ("source", "target")
# The arrays of a folder, in the order of their checksum.
_ARRAYS = (
    "source_ids",
    "source_offsets",
    "target_ids",
    "target_offsets",
    "line_numbers",
)

# Lines encoded at a time: enough to keep SentencePiece's threads busy.
_BATCH_LINES = 10_000
# Numbers summed at a time.
_CHUNK = 1 << 20


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
        sign_ids: pair of tuples, the ids of the signs in the source and the
            target; empty if no line has signs.
        source_end_id: int, the `end_id` of the source's vocabulary. A model
            that reads no ends, as in OpenNMT-tf, has the id of padding.
    """

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray
    line_numbers: np.ndarray
    num_empty: int
    num_too_long: int
    sign_ids: tuple[Sequence[int], Sequence[int]] = ((), ())
    source_end_id: int = END_ID

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
    def length_order(self) -> "LengthOrder":
        """The pairs sorted by length."""
        return order_by_length(self.source_lengths, self.target_lengths)

    @functools.cached_property
    def checksum(self) -> int:
        """The checksum of the ids of all pairs, in their order."""
        return _checksum(
            getattr(self, name) for name in _ARRAYS if name != "line_numbers"
        )

    def with_line_numbers(self, numbers: np.ndarray) -> "TokenCorpus":
        """Returns the same pairs with the line numbers of another text.

        Use it if the text is a selection of lines of another text.

        Args:
            numbers: int array. For each line of the text, its line number in
                the other text.

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
        has_signs: bool = False,
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
            has_signs: bool. Whether lines may have signs, U+0001 to U+0008,
                which are taken out otherwise. Defaults to `False`.

        Returns:
            `TokenCorpus`.

        Raises:
            InputError: if the corpus is unusable, see `ParallelCorpus.check`,
                or `directory` holds something else.
        """
        directory = pathlib.Path(directory)
        origin = _origin(
            corpus, source_vocabulary, target_vocabulary, max_length, has_signs
        )
        # A full disk or a copy may have cut or changed a file: then all are
        # rebuilt.
        with contextlib.suppress(*_DAMAGED):
            if read_json_object(directory / "origin.json") == origin:
                return cls.load(directory)
        _check_replaceable(directory)
        corpus.check()
        with atomic_directory(directory) as folder:
            _encode(
                corpus,
                (source_vocabulary, target_vocabulary),
                max_length,
                folder,
                has_signs,
            )
            (folder / "origin.json").write_text(json.dumps(origin))
        return cls.load(directory)

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
    def load(cls, directory: pathlib.Path) -> "TokenCorpus":
        """Reads the arrays of a folder that `prepare` filled.

        Args:
            directory: path of the folder.

        Raises:
            OSError, ValueError, LookupError, TypeError: if one is missing or
                damaged.
        """
        counts = read_json_object(directory / "counts.json")
        checksum = counts.pop("checksum")
        arrays: dict[str, Any] = _mapped_arrays(directory, counts.pop("types"))
        tokens = cls(**arrays, **counts)
        if _checksum([tokens.line_numbers], tokens.checksum) != checksum:
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
    has_signs: bool,
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
        "has_signs": has_signs,
    }


def _content(vocabulary: AnyVocabulary) -> bytes:
    """Returns bytes that distinguish a vocabulary from all others."""
    # A vocabulary of a user's class must have a `model`, too.
    if hasattr(vocabulary, "model"):
        return vocabulary.model
    tokens = "\n".join(vocabulary.tokens).encode()
    added = f"{vocabulary.start} {vocabulary.end}".encode()
    return b"\n".join([tokens, vocabulary.tokenizer or b"", added])


def _files(corpus: ParallelCorpus) -> list[list]:
    """Returns path, size and modification time of both files."""
    files = []
    for path in map(os.path.abspath, (corpus.source, corpus.target)):
        # If there is no such file, checking the corpus raises the right error.
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            files.append([path, stat.st_size, stat.st_mtime_ns])
    return files


# === Encoding ===


def _encode(
    corpus: ParallelCorpus,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
    max_length: int,
    folder: pathlib.Path,
    has_signs: bool,
) -> None:
    """Encodes a corpus into the files of a folder.

    Raises:
        InputError: if no pair is left.
    """
    # The same on every machine.
    types = {"line_numbers": "<u4"}
    for side, vocabulary in zip(_SIDES, vocabularies):
        types[f"{side}_ids"] = "<u2" if len(vocabulary) <= 2**16 else "<i4"
        types[f"{side}_offsets"] = "<i8"
    counts, num_pairs = _write_arrays(
        corpus, vocabularies, max_length, types, folder, has_signs
    )
    if not num_pairs:
        raise InputError(
            f"{corpus.source} and {corpus.target}: no pair is left. "
            f"{counts['num_empty']:,} have an empty line, "
            f"{counts['num_too_long']:,} have a line of {max_length} tokens or "
            "more (`data.max_length`)."
        )
    checksum = _checksum(_mapped_arrays(folder, types).values())
    content = {**counts, "types": types, "checksum": checksum}
    content["source_end_id"] = vocabularies[0].end_id
    if has_signs:
        signed: Any = vocabularies
        content["sign_ids"] = [each.sign_ids for each in signed]
    (folder / "counts.json").write_text(json.dumps(content))


def _mapped_arrays(
    folder: pathlib.Path, types: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a folder, which are read when needed."""
    arrays: dict[str, np.ndarray] = {}
    for name in _ARRAYS:
        path, dtype = folder / f"{name}.bin", np.dtype(types[name])
        if dtype.kind not in "iu":
            # Other bytes than numbers would end the process.
            raise ValueError(f"An array of {dtype} holds no ids.")
        if path.stat().st_size:
            arrays[name] = np.memmap(path, dtype, "r")
        else:
            # A side may have no ids, and an empty file cannot be mapped.
            arrays[name] = np.zeros(0, dtype)
    return arrays


def _checksum(arrays: Iterable[np.ndarray], checksum: int = 0) -> int:
    """Returns the checksum of integers, whatever type they are stored as.

    `checksum` is the checksum of the arrays before them.
    """
    for array in arrays:
        flat = array.reshape(-1)
        for start in range(0, len(flat), _CHUNK):
            part = flat[start : start + _CHUNK].astype("<u4")
            checksum = zlib.crc32(part.data, checksum)
    return checksum


def _write_arrays(
    corpus: ParallelCorpus,
    vocabularies: Sequence[AnyVocabulary],
    max_length: int,
    types: Mapping[str, str],
    folder: pathlib.Path,
    has_signs: bool,
) -> tuple[dict[str, int], int]:
    """Encodes a corpus some lines at a time, and appends to the files.

    Returns:
        The numbers of pairs left out, and the number of pairs that are left.
    """
    counts = {"num_empty": 0, "num_too_long": 0}
    # With signs, all are `Vocabulary`.
    name = "encode_with_signs" if has_signs else "encode"
    encoders = [getattr(vocabulary, name) for vocabulary in vocabularies]
    lengths = dict.fromkeys(types, 0)
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(open(folder / f"{name}.bin", "wb"))
            for name in types
        }

        def append(name: str, values: Iterable[int]) -> None:
            array = np.fromiter(values, types[name])
            # Not `tofile`, whose error does not say that the disk is full.
            files[name].write(array.data)
            lengths[name] += len(array)

        for side in _SIDES:
            append(f"{side}_offsets", [0])
        for batch in batched(enumerate(corpus, start=1), _BATCH_LINES):
            full = [
                (number, pair)
                for number, pair in batch
                if all(clean_text(line, has_signs) for line in pair)
            ]
            rows = [
                encode([pair[side] for _, pair in full])
                for side, encode in enumerate(encoders)
            ]
            # One position is for the end of sentence, which rows lack here.
            fits = [
                max(len(source), len(target)) < max_length
                for source, target in zip(*rows)
            ]
            counts["num_empty"] += len(batch) - len(full)
            counts["num_too_long"] += len(fits) - sum(fits)
            append(
                "line_numbers",
                (number for number, _ in itertools.compress(full, fits)),
            )
            for side, encoded in zip(_SIDES, rows):
                kept = list(itertools.compress(encoded, fits))
                ends = np.cumsum([len(row) for row in kept], dtype=np.int64)
                append(f"{side}_offsets", lengths[f"{side}_ids"] + ends)
                append(f"{side}_ids", itertools.chain.from_iterable(kept))
    return counts, lengths["line_numbers"]


# === The order of lengths ===


@dataclasses.dataclass(frozen=True)
class LengthOrder:
    """The pairs of a corpus, sorted by length.

    The first key is the length of the longer side of a pair; the second is
    the difference between the two lengths, source minus target. Pairs that are
    equal in both form a length group, in the order of the corpus.

    For example, four pairs whose sentences have these lengths,

    | pair | source | target | longest | difference |
    | ---- | ------ | ------ | ------- | ---------- |
    | 0    | 3      | 2      | 3       | 1          |
    | 1    | 2      | 2      | 2       | 0          |
    | 2    | 2      | 3      | 3       | -1         |
    | 3    | 3      | 2      | 3       | 1          |

    are sorted as `pairs = [1, 2, 0, 3]`. They form three length groups: pair 1,
    pair 2, and the pairs 0 and 3. So `longest` is `[2, 3, 3]`, `difference` is
    `[0, -1, 1]` and `starts` is `[0, 1, 2, 4]`.

    Attributes:
        pairs: int64 array `(num_pairs,)`. Index of the pair at each position of
            this order.
        longest: int64 array `(num_groups,)`. Length of the longer side in each
            length group, the end of sentence included.
        difference: int64 array `(num_groups,)`. Source length minus target
            length in each length group.
        starts: int64 array `(num_groups + 1,)`. Position in `pairs` at which
            each length group starts, and at which the last one ends.
    """

    pairs: np.ndarray
    longest: np.ndarray
    difference: np.ndarray
    starts: np.ndarray


def order_by_length(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> LengthOrder:
    """Sorts pairs by their lengths.

    Args:
        source_lengths: int64 array `(num_pairs,)`. Number of tokens of each
            source sentence, the end of sentence included.
        target_lengths: int64 array `(num_pairs,)`. The same of the target.
    """
    longest = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    # Stable: pairs of a length group stay in the order of the corpus.
    pairs = np.lexsort((difference, longest))
    longest, difference = longest[pairs], difference[pairs]
    # No pair has the length 0, so the first one starts a group.
    is_first = np.diff(longest, prepend=0) != 0
    is_first |= np.diff(difference, prepend=0) != 0
    firsts = np.flatnonzero(is_first)
    return LengthOrder(
        pairs,
        longest[firsts],
        difference[firsts],
        np.append(firsts, len(pairs)),
    )
