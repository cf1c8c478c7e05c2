"""Writes the token ids of a parallel corpus to disk, with bounded memory.

Nobody knows how many ids a corpus has before it is encoded. So arrays grow as
raw files, which have no header that tells their length; `np.memmap` then finds
the length from the size of the file, and `np.save` copies it to an `.npy` file
without reading it into memory.
"""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import zlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from relative_attention.data.length_order import order_by_length
from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.lines import batched
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError

SIDES = ("source", "target")
# The arrays of a folder, in the order in which their checksum takes them.
_ARRAYS = (
    "source_ids",
    "source_offsets",
    "target_ids",
    "target_offsets",
    "line_numbers",
    "length_order",
    "length_cells",
)

# Lines encoded at a time: enough to keep SentencePiece's threads busy.
_BATCH_LINES = 10_000
# Numbers summed at a time.
_CHUNK = 1 << 20
# From this number of ids on, offsets take eight bytes.
_LARGE = 2**32


@dataclasses.dataclass(frozen=True)
class _EncodedBatch:
    """The pairs that are kept of some lines, and how many are not."""

    line_numbers: list[int]
    rows: tuple[list[list[int]], list[list[int]]]
    num_empty: int
    num_too_long: int


def encode_corpus(
    corpus: ParallelCorpus,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
    max_length: int,
    folder: pathlib.Path,
) -> None:
    """Encodes a corpus into the arrays that `TokenCorpus` reads.

    Args:
        corpus: `ParallelCorpus`, whose two files have as many lines.
        vocabularies: pair of the source's and the target's vocabulary.
        max_length: int. A pair of which a side has more tokens, its end
            included, is left out.
        folder: path of an empty folder.

    Raises:
        InputError: if no pair is left.
    """
    dtypes: dict[str, np.dtype] = {"line_numbers": np.dtype(np.uint32)}
    for side, vocabulary in zip(SIDES, vocabularies):
        is_small = len(vocabulary) <= 2**16
        dtypes[f"{side}_ids"] = np.dtype(np.uint16 if is_small else np.int32)
        dtypes[f"{side}_lengths"] = np.dtype(np.int32)
    counts = _write_raw(
        _encode_batches(corpus, vocabularies, max_length), dtypes, folder
    )
    if not (folder / "line_numbers.raw").stat().st_size:
        raise InputError(
            f"Of {corpus.source} and {corpus.target} no pair is left: "
            f"{counts['num_empty']:,} have an empty line, "
            f"{counts['num_too_long']:,} have a line of {max_length} tokens or "
            "more (`data.max_length`)."
        )
    for name, dtype in dtypes.items():
        if not name.endswith("_lengths"):
            _raw_to_npy(folder / name, dtype)
    for side in SIDES:
        _write_offsets(folder, side)
    _write_length_order(folder)
    counts["checksum"] = array_checksum(
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS
    )
    (folder / "counts.json").write_text(json.dumps(counts))


def array_checksum(arrays: Iterable[np.ndarray], checksum: int = 0) -> int:
    """Returns the checksum of integers, whatever type they are stored as.

    `checksum` is that of the arrays before these.
    """
    for array in arrays:
        flat = array.reshape(-1)
        for start in range(0, len(flat), _CHUNK):
            part = flat[start : start + _CHUNK].astype("<u4")
            checksum = zlib.crc32(part.data, checksum)
    return checksum


def _encode_batches(
    corpus: ParallelCorpus,
    vocabularies: Sequence[AnyVocabulary],
    max_length: int,
) -> Iterator[_EncodedBatch]:
    """Yields the encoded pairs of a corpus, some lines at a time."""
    for batch in batched(enumerate(corpus, start=1), _BATCH_LINES):
        full = [
            (number, pair)
            for number, pair in batch
            if pair[0].strip() and pair[1].strip()
        ]
        sources, targets = (
            vocabulary.encode([pair[side] for _, pair in full])
            for side, vocabulary in enumerate(vocabularies)
        )
        # The end of sentence, which rows lack here, takes one position.
        fits = [
            max(len(source), len(target)) < max_length
            for source, target in zip(sources, targets)
        ]
        yield _EncodedBatch(
            [number for number, _ in itertools.compress(full, fits)],
            (
                list(itertools.compress(sources, fits)),
                list(itertools.compress(targets, fits)),
            ),
            num_empty=len(batch) - len(full),
            num_too_long=len(fits) - sum(fits),
        )


def _write_raw(
    batches: Iterable[_EncodedBatch],
    dtypes: Mapping[str, np.dtype],
    folder: pathlib.Path,
) -> dict[str, int]:
    """Writes a raw file of each array; returns how many pairs are left out."""
    counts = {"num_empty": 0, "num_too_long": 0}
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(open(folder / f"{name}.raw", "wb"))
            for name in dtypes
        }

        def append(name: str, values: ArrayLike) -> None:
            _write_array(files[name], np.asarray(values, dtypes[name]))

        for batch in batches:
            counts["num_empty"] += batch.num_empty
            counts["num_too_long"] += batch.num_too_long
            append("line_numbers", batch.line_numbers)
            for side, rows in zip(SIDES, batch.rows):
                append(f"{side}_lengths", [len(row) for row in rows])
                ids = itertools.chain.from_iterable(rows)
                append(f"{side}_ids", np.fromiter(ids, np.int32))
    return counts


def _write_offsets(folder: pathlib.Path, side: str) -> None:
    """Writes the offset of each sentence, the sum of the lengths before it."""
    path = folder / f"{side}_lengths.raw"
    lengths = np.memmap(path, np.int32, "r")
    num_ids = len(np.load(folder / f"{side}_ids.npy", mmap_mode="r"))
    dtype = np.dtype(np.uint32 if num_ids < _LARGE else np.int64)
    with open(folder / f"{side}_offsets.raw", "wb") as file:
        _write_array(file, np.zeros(1, dtype))
        total = 0
        for start in range(0, len(lengths), _CHUNK):
            sums = np.cumsum(lengths[start : start + _CHUNK], dtype=np.int64)
            _write_array(file, (sums + total).astype(dtype))
            total += int(sums[-1])
    path.unlink()
    _raw_to_npy(folder / f"{side}_offsets", dtype)


def _write_length_order(folder: pathlib.Path) -> None:
    """Writes the `LengthOrder` of the pairs, for which offsets are there."""
    source_offsets, target_offsets = (
        np.load(folder / f"{side}_offsets.npy", mmap_mode="r") for side in SIDES
    )
    pairs = np.lib.format.open_memmap(
        folder / "length_order.npy",
        mode="w+",
        dtype=np.uint32,
        shape=(len(source_offsets) - 1,),
    )
    order = order_by_length(source_offsets, target_offsets, pairs)
    pairs.flush()
    # A column more than there are length groups, for the end of the last.
    np.save(
        folder / "length_cells.npy",
        [
            np.append(order.longest, 0),
            np.append(order.difference, 0),
            order.starts,
        ],
    )


def _write_array(file: BinaryIO, values: np.ndarray) -> None:
    # Not `tofile`, whose error on a full disk does not say that it is full.
    file.write(values.data)


def _raw_to_npy(path: pathlib.Path, dtype: np.dtype) -> None:
    """Replaces the raw file of an array by its `.npy` file."""
    raw = path.with_suffix(".raw")
    # A file without a byte cannot be mapped.
    is_empty = raw.stat().st_size == 0
    values = np.empty(0, dtype) if is_empty else np.memmap(raw, dtype, "r")
    try:
        np.save(path.with_suffix(".npy"), values)
    except OSError as error:
        raise OSError(
            f"{path}.npy cannot be written; the disk may be full ({error})"
        ) from error
    raw.unlink()
