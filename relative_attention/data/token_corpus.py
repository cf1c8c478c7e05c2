"""A parallel corpus as token ids, kept on disk."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib

import numpy as np

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import recover_directory
from relative_attention.data.growing_array import growing_array
from relative_attention.data.length_order import LengthOrder
from relative_attention.data.length_order import order_by_length
from relative_attention.data.parallel_corpus import batched
from relative_attention.errors import InputError
from relative_attention.json_file import read_json

# Of the files, which are made anew where it is another.
_FORMAT = 2

# Lines encoded at a time: enough to keep SentencePiece's threads busy.
_BATCH_LINES = 10_000
_CHUNK = 1 << 20
_SIDES = ("source", "target")
# What reading a file raises that is cut, or holds something else.
_DAMAGED = (OSError, EOFError, ValueError, TypeError, IndexError)
# From here on, offsets take eight bytes.
_LARGE = 2**32


@dataclasses.dataclass(frozen=True)
class TokenCorpus:
    """Token ids of sentence pairs, read from disk as they are needed.

    A side is one flat array of ids, without ends of sentences, and the
    offset of each sentence in it; memory-mapped, so that a corpus of any
    size starts at once and takes no memory of its own.

    Attributes:
        source_ids: int array, all source sentences one after another.
        source_offsets: int array `(pairs + 1,)`.
        target_ids: int array.
        target_offsets: int array `(pairs + 1,)`.
        line_numbers: int array `(pairs,)`, the line (1 first) of each pair.
        num_empty: Pairs left out because a line was empty.
        num_too_long: Pairs left out because a line had too many tokens.
    """

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray
    line_numbers: np.ndarray
    num_empty: int
    num_too_long: int

    def __len__(self):
        return len(self.line_numbers)

    @property
    def source_lengths(self):
        """Tokens of each source sentence, its end included."""
        return np.diff(self.source_offsets.astype(np.int64)) + 1

    @property
    def target_lengths(self):
        """Tokens of each target sentence, its end included."""
        return np.diff(self.target_offsets.astype(np.int64)) + 1

    @functools.cached_property
    def length_order(self):
        """`LengthOrder` of the pairs; read from disk where it is prepared."""
        return order_by_length(
            self.source_offsets,
            self.target_offsets,
            np.empty(len(self), np.int64),
        )

    def with_line_numbers(self, numbers):
        """The same pairs, of a text that is a selection of another's lines.

        Args:
            numbers: int array. For each line of the text, its number in the
                other.

        Returns:
            `TokenCorpus`.
        """
        corpus = dataclasses.replace(
            self, line_numbers=np.asarray(numbers)[self.line_numbers - 1]
        )
        corpus.__dict__["length_order"] = self.length_order
        return corpus

    @classmethod
    def prepare(
        cls,
        corpus,
        source_vocabulary,
        target_vocabulary,
        max_length,
        directory,
    ):
        """Encode a corpus, or find it encoded already.

        Args:
            corpus: `ParallelCorpus`.
            source_vocabulary: `Vocabulary`.
            target_vocabulary: `Vocabulary`.
            max_length: int. Pairs of which a side has more tokens, its end
                included, are left out and counted, as are pairs of which a
                side is empty.
            directory: path of a folder of its own for the arrays. What it
                holds is used if it was made from the same files (path, size,
                time of change), vocabularies and limit, and is whole; else it
                is replaced. A folder with anything else in it is refused.

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
        recover_directory(directory)
        if _read_json(directory / "origin.json") == origin:
            # A full disk or a copy may have cut a file.
            with contextlib.suppress(*_DAMAGED):
                return cls._load(directory)
        _check_replaceable(directory)
        corpus.check()
        with atomic_directory(directory) as folder:
            _encode(
                corpus,
                source_vocabulary,
                target_vocabulary,
                max_length,
                folder,
            )
            (folder / "origin.json").write_text(json.dumps(origin))
        return cls._load(directory)

    @staticmethod
    def is_made_of(corpus, directory):
        """Whether `directory` holds what `prepare` made of these files.

        They were read then, and have not changed since (size, time).

        Args:
            corpus: `ParallelCorpus`.
            directory: path.
        """
        origin = _read_json(pathlib.Path(directory) / "origin.json")
        return isinstance(origin, dict) and origin.get("files") == _files(
            corpus
        )

    @classmethod
    def _load(cls, directory):
        def load(name):
            return np.load(directory / f"{name}.npy", mmap_mode="r")

        tokens = cls(
            **{
                name: load(name)
                for name in (
                    "source_ids",
                    "source_offsets",
                    "target_ids",
                    "target_offsets",
                    "line_numbers",
                )
            },
            **_read_json(directory / "counts.json"),
        )
        cells = np.load(directory / "length_cells.npy")
        order = LengthOrder(
            load("length_order"), cells[0, :-1], cells[1, :-1], cells[2]
        )
        # In place of the property, which would sort again.
        tokens.__dict__["length_order"] = order
        tokens._check()
        return tokens

    def _check(self):
        """Raise `ValueError` if the arrays do not belong together."""
        sizes = (
            (len(self.source_offsets), len(self) + 1),
            (len(self.target_offsets), len(self) + 1),
            (self.source_offsets[-1], len(self.source_ids)),
            (self.target_offsets[-1], len(self.target_ids)),
            (len(self.length_order.pairs), len(self)),
            (self.length_order.starts[-1], len(self)),
        )
        if any(size != wanted for size, wanted in sizes):
            raise ValueError("The arrays of a corpus differ in length.")
        if not all(
            isinstance(count, int)
            for count in (self.num_empty, self.num_too_long)
        ):
            raise ValueError("The counts of a corpus must be numbers.")


def _check_replaceable(directory):
    is_cache = (directory / "origin.json").exists()
    if directory.exists() and not is_cache and any(directory.iterdir()):
        raise InputError(
            f"`directory` must be a folder for token ids alone: {directory} "
            "holds other files, which would be deleted. Choose another."
        )


def _origin(corpus, source_vocabulary, target_vocabulary, max_length):
    """What the ids were made from; as JSON gives it back."""
    return {
        "format": _FORMAT,
        "files": _files(corpus),
        "vocabularies": [
            hashlib.sha256(_content(vocabulary)).hexdigest()
            for vocabulary in (source_vocabulary, target_vocabulary)
        ],
        "max_length": max_length,
    }


def _content(vocabulary):
    """Bytes that tell a vocabulary from others."""
    if hasattr(vocabulary, "model"):
        return vocabulary.model
    return "\n".join(vocabulary.tokens).encode()


def _files(corpus):
    """Path, size and time of both files."""
    files = []
    for path in (corpus.source, corpus.target):
        try:
            stat = os.stat(path)
        except FileNotFoundError as error:
            raise InputError(f"No such file: {path}.") from error
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        files.append([os.path.abspath(path), stat.st_size, stat.st_mtime_ns])
    return files


def _encode(corpus, source_vocabulary, target_vocabulary, max_length, folder):
    """Write the arrays; what is in memory does not grow with the corpus."""
    vocabularies = (source_vocabulary, target_vocabulary)
    counts = {"num_empty": 0, "num_too_long": 0}
    num_ids = dict.fromkeys(_SIDES, 0)
    num_pairs = 0
    with contextlib.ExitStack() as stack:

        def grow(name, dtype):
            return stack.enter_context(
                growing_array(folder / f"{name}.npy", dtype)
            )

        add_ids = {
            side: grow(
                f"{side}_ids",
                np.uint16 if len(vocabulary) <= 2**16 else np.int32,
            )
            for side, vocabulary in zip(_SIDES, vocabularies)
        }
        add_lengths = {
            side: grow(f"{side}_lengths", np.int32) for side in _SIDES
        }
        add_line_numbers = grow("line_numbers", np.uint32)
        for numbers, rows in _encoded(corpus, vocabularies, max_length, counts):
            add_line_numbers(numbers)
            num_pairs += len(numbers)
            for side, side_rows in zip(_SIDES, rows):
                lengths = np.fromiter(map(len, side_rows), np.int32)
                total = int(lengths.sum())
                flat = itertools.chain.from_iterable(side_rows)
                add_lengths[side](lengths)
                add_ids[side](np.fromiter(flat, np.int32, total))
                num_ids[side] += total
    if not num_pairs:
        raise InputError(
            f"Of {corpus.source} and {corpus.target} no pair is left: "
            f"{counts['num_empty']:,} have an empty line, "
            f"{counts['num_too_long']:,} have a line of {max_length} tokens or "
            "more (`data.max_length`)."
        )
    for side in _SIDES:
        _write_offsets(folder, side, num_ids[side])
    _write_length_order(folder, num_pairs)
    (folder / "counts.json").write_text(json.dumps(counts))


def _encoded(corpus, vocabularies, max_length, counts):
    """Yield line numbers and rows of ids of both sides, some pairs at a time.

    What is left out is added to `counts`.
    """
    for batch in batched(enumerate(corpus, start=1), _BATCH_LINES):
        kept = [
            (number, pair)
            for number, pair in batch
            if pair[0].strip() and pair[1].strip()
        ]
        counts["num_empty"] += len(batch) - len(kept)
        rows = [
            vocabulary.encode([pair[side] for _, pair in kept])
            for side, vocabulary in enumerate(vocabularies)
        ]
        fits = [
            max(len(source), len(target)) < max_length
            for source, target in zip(*rows)
        ]
        counts["num_too_long"] += len(fits) - sum(fits)
        yield (
            [number for (number, _), fit in zip(kept, fits) if fit],
            [
                [row for row, fit in zip(side_rows, fits) if fit]
                for side_rows in rows
            ],
        )


def _write_offsets(folder, side, num_ids):
    """Sums of the lengths, in whose place they come."""
    path = folder / f"{side}_lengths.npy"
    lengths = np.load(path, mmap_mode="r")
    dtype = np.uint32 if num_ids < _LARGE else np.int64
    with growing_array(folder / f"{side}_offsets.npy", dtype) as add:
        add([0])
        total = 0
        for start in range(0, len(lengths), _CHUNK):
            sums = np.cumsum(lengths[start : start + _CHUNK], dtype=np.int64)
            add(sums + total)
            total += int(sums[-1])
    path.unlink()


def _write_length_order(folder, num_pairs):
    offsets = [
        np.load(folder / f"{side}_offsets.npy", mmap_mode="r")
        for side in _SIDES
    ]
    pairs = np.lib.format.open_memmap(
        folder / "length_order.npy",
        mode="w+",
        dtype=np.uint32,
        shape=(num_pairs,),
    )
    order = order_by_length(*offsets, pairs)
    pairs.flush()
    np.save(
        folder / "length_cells.npy",
        [
            np.append(order.longest, 0),
            np.append(order.difference, 0),
            order.starts,
        ],
    )


def _read_json(path):
    """What the file holds, or `None` where there is none to be read."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None
