"""Writes the token ids of a parallel corpus to disk, with bounded memory.

The number of ids is not known before a corpus is encoded. So arrays grow as raw
files, without a header that gives their length. Afterwards they are copied, a
part at a time, to `.npy` files of the smallest type.
"""

import contextlib
import itertools
import json
import pathlib
import zlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from relative_attention.data.length_order import order_by_length
from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.lines import batched
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError

SIDES = ("source", "target")
# The arrays of a folder, in the order of their checksum.
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
# Numbers copied or summed at a time.
_CHUNK = 1 << 20
# From this number of ids on, offsets need eight bytes.
_LARGE = 2**32


def encode_corpus(
    corpus: ParallelCorpus,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
    max_length: int,
    folder: pathlib.Path,
) -> None:
    """Encodes a corpus into the arrays that `TokenCorpus` reads.

    Args:
        corpus: `ParallelCorpus`, checked.
        vocabularies: pair of the source's and the target's vocabulary.
        max_length: int. Pairs with more tokens on either side, including the
            end of sentence, are left out.
        folder: path of an empty folder.

    Raises:
        InputError: if no pair is left.
    """
    types: dict[str, DTypeLike] = {"line_numbers": np.uint32}
    for side, vocabulary in zip(SIDES, vocabularies):
        is_small = len(vocabulary) <= 2**16
        types[f"{side}_ids"] = np.uint16 if is_small else np.int32
        types[f"{side}_offsets"] = np.int64
    counts, num_ids = _write_raw(
        corpus, vocabularies, max_length, types, folder
    )
    if not (folder / "line_numbers.raw").stat().st_size:
        raise InputError(
            f"{corpus.source} and {corpus.target}: no pair is left. "
            f"{counts['num_empty']:,} have an empty line, "
            f"{counts['num_too_long']:,} have a line of {max_length} tokens or "
            "more (`data.max_length`)."
        )
    for name, stored in types.items():
        dtype = stored
        if name.endswith("offsets"):
            is_small = num_ids[name.removesuffix("_offsets")] < _LARGE
            dtype = np.uint32 if is_small else np.int64
        _raw_to_npy(folder / name, stored, dtype)
    _write_length_order(folder)
    counts["checksum"] = array_checksum(
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS
    )
    (folder / "counts.json").write_text(json.dumps(counts))


def array_checksum(arrays: Iterable[np.ndarray], checksum: int = 0) -> int:
    """Returns the checksum of integers, whatever type they are stored as.

    `checksum` is the checksum of the arrays before them.
    """
    for array in arrays:
        flat = array.reshape(-1)
        for start in range(0, len(flat), _CHUNK):
            part = flat[start : start + _CHUNK].astype("<u4")
            checksum = zlib.crc32(part.data, checksum)
    return checksum


def _write_raw(
    corpus: ParallelCorpus,
    vocabularies: Sequence[AnyVocabulary],
    max_length: int,
    types: Mapping[str, DTypeLike],
    folder: pathlib.Path,
) -> tuple[dict[str, int], dict[str, int]]:
    """Encodes a corpus some lines at a time, and appends to raw files.

    Returns:
        The numbers of pairs left out, and the number of ids of each side.
    """
    counts = {"num_empty": 0, "num_too_long": 0}
    num_ids = dict.fromkeys(SIDES, 0)
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(open(folder / f"{name}.raw", "wb"))
            for name in types
        }

        def append(name: str, values: Iterable[int]) -> None:
            # Not `tofile`, whose error does not say that the disk is full.
            files[name].write(np.fromiter(values, types[name]).data)

        for side in SIDES:
            append(f"{side}_offsets", [0])
        for batch in batched(enumerate(corpus, start=1), _BATCH_LINES):
            full = [
                (number, pair)
                for number, pair in batch
                if pair[0].strip() and pair[1].strip()
            ]
            rows = [
                vocabulary.encode([pair[side] for _, pair in full])
                for side, vocabulary in enumerate(vocabularies)
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
            for side, encoded in zip(SIDES, rows):
                kept = list(itertools.compress(encoded, fits))
                append(f"{side}_ids", itertools.chain.from_iterable(kept))
                ends = np.cumsum([len(row) for row in kept], dtype=np.int64)
                append(f"{side}_offsets", num_ids[side] + ends)
                num_ids[side] += sum(map(len, kept))
    return counts, num_ids


def _raw_to_npy(
    path: pathlib.Path, stored: DTypeLike, dtype: DTypeLike
) -> None:
    """Replaces the raw file of an array by its `.npy` file."""
    raw = path.with_suffix(".raw")
    # An empty file cannot be mapped.
    is_empty = raw.stat().st_size == 0
    values = np.empty(0, stored) if is_empty else np.memmap(raw, stored, "r")
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": values.shape,
    }
    with open(path.with_suffix(".npy"), "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(values), _CHUNK):
            file.write(values[start : start + _CHUNK].astype(dtype).data)
    raw.unlink()


def _write_length_order(folder: pathlib.Path) -> None:
    """Writes the `LengthOrder` of the pairs, once the offsets are written."""
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
    # One column more than there are length groups, for the end of the last.
    np.save(
        folder / "length_cells.npy",
        [
            np.append(order.longest, 0),
            np.append(order.difference, 0),
            order.starts,
        ],
    )
