"""A parallel corpus as token ids, kept on disk."""

import dataclasses
import hashlib
import json
import os
import pathlib

import numpy as np

from relative_attention.atomic_files import atomic_directory
from relative_attention.data.parallel_corpus import batched
from relative_attention.errors import InputError

# Lines encoded at a time: enough to keep SentencePiece's threads busy.
_BATCH_LINES = 10_000


@dataclasses.dataclass(frozen=True)
class TokenCorpus:
    """Token ids of sentence pairs, read from disk as they are needed.

    A side is one flat array of ids, without ends of sentences, and the
    offset of each sentence in it; memory-mapped, so that a corpus of any
    size starts at once and takes no memory of its own.

    Attributes:
        source_ids: int array, all source sentences one after another.
        source_offsets: int64 array `(pairs + 1,)`.
        target_ids: int array.
        target_offsets: int64 array `(pairs + 1,)`.
        line_numbers: int64 array `(pairs,)`, the line (1 first) of each pair.
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
        return np.diff(self.source_offsets) + 1

    @property
    def target_lengths(self):
        """Tokens of each target sentence, its end included."""
        return np.diff(self.target_offsets) + 1

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
                time of change), vocabularies and limit; else it is replaced.
                A folder with anything else in it is refused.

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
        if _read_json(directory / "origin.json") != origin:
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

    @classmethod
    def _load(cls, directory):
        counts = _read_json(directory / "counts.json")
        tokens = cls(
            **{
                name: np.load(directory / f"{name}.npy", mmap_mode="r")
                for name in (
                    "source_ids",
                    "source_offsets",
                    "target_ids",
                    "target_offsets",
                    "line_numbers",
                )
            },
            **counts,
        )
        return tokens


def _check_replaceable(directory):
    is_cache = (directory / "origin.json").exists()
    if directory.exists() and not is_cache and any(directory.iterdir()):
        raise InputError(
            f"`directory` must be a folder for token ids alone: {directory} "
            "holds other files, which would be deleted. Choose another."
        )


def _origin(corpus, source_vocabulary, target_vocabulary, max_length):
    """What the ids were made from; as JSON gives it back."""
    files = []
    for path in (corpus.source, corpus.target):
        try:
            stat = os.stat(path)
        except FileNotFoundError as error:
            raise InputError(f"No such file: {path}.") from error
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        files.append([os.path.abspath(path), stat.st_size, stat.st_mtime_ns])
    return {
        "files": files,
        "vocabularies": [
            hashlib.sha256(vocabulary.model).hexdigest()
            for vocabulary in (source_vocabulary, target_vocabulary)
        ],
        "max_length": max_length,
    }


def _encode(corpus, source_vocabulary, target_vocabulary, max_length, folder):
    lengths = {"source": [], "target": []}
    line_numbers = []
    counts = {"num_empty": 0, "num_too_long": 0}
    vocabularies = {"source": source_vocabulary, "target": target_vocabulary}
    dtypes = {
        side: np.uint16 if len(vocabulary) <= 2**16 else np.int32
        for side, vocabulary in vocabularies.items()
    }
    with (
        open(folder / "source.raw", "wb") as source_file,
        open(folder / "target.raw", "wb") as target_file,
    ):
        files = {"source": source_file, "target": target_file}
        numbered = enumerate(corpus, start=1)
        for batch in batched(numbered, _BATCH_LINES):
            kept = [
                (number, pair)
                for number, pair in batch
                if pair[0].strip() and pair[1].strip()
            ]
            counts["num_empty"] += len(batch) - len(kept)
            ids = {
                "source": source_vocabulary.encode([p[0] for _, p in kept]),
                "target": target_vocabulary.encode([p[1] for _, p in kept]),
            }
            fits = [
                max(len(source), len(target)) < max_length
                for source, target in zip(ids["source"], ids["target"])
            ]
            counts["num_too_long"] += len(fits) - sum(fits)
            line_numbers += [n for (n, _), fit in zip(kept, fits) if fit]
            for side, rows in ids.items():
                rows = [row for row, fit in zip(rows, fits) if fit]
                lengths[side] += map(len, rows)
                flat = [token_id for row in rows for token_id in row]
                files[side].write(np.array(flat, dtypes[side]).tobytes())
    if not line_numbers:
        raise InputError(
            f"Of {corpus.source} and {corpus.target} no pair is left: "
            f"{counts['num_empty']:,} have an empty line, "
            f"{counts['num_too_long']:,} have a line of {max_length} tokens or "
            "more (`data.max_length`)."
        )
    for side in ("source", "target"):
        raw = folder / f"{side}.raw"
        np.save(
            folder / f"{side}_ids.npy",
            np.memmap(raw, dtypes[side], mode="r"),
        )
        raw.unlink()
        offsets = np.concatenate([[0], np.cumsum(lengths[side])])
        np.save(folder / f"{side}_offsets.npy", offsets.astype(np.int64))
    np.save(folder / "line_numbers.npy", np.array(line_numbers, np.int64))
    (folder / "counts.json").write_text(json.dumps(counts))


def _read_json(path):
    """What the file holds, or `None` where there is none to be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
