"""Writes the token ids of a parallel corpus to disk, with bounded memory.

The number of ids is not known before a corpus is encoded. So the arrays are
appended to `.npy` files, whose headers are written again at the end, with the
length.
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

from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.lines import batched
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.text import clean_text

SIDES = ("source", "target")
# The arrays of a folder, in the order of their checksum.
ARRAYS = (
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
    counts, num_pairs = _write_arrays(
        corpus, vocabularies, max_length, types, folder
    )
    if not num_pairs:
        raise InputError(
            f"{corpus.source} and {corpus.target}: no pair is left. "
            f"{counts['num_empty']:,} have an empty line, "
            f"{counts['num_too_long']:,} have a line of {max_length} tokens or "
            "more (`data.max_length`)."
        )
    counts["checksum"] = array_checksum(
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS
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


def _write_arrays(
    corpus: ParallelCorpus,
    vocabularies: Sequence[AnyVocabulary],
    max_length: int,
    types: Mapping[str, DTypeLike],
    folder: pathlib.Path,
) -> tuple[dict[str, int], int]:
    """Encodes a corpus some lines at a time, and appends to the files.

    Returns:
        The numbers of pairs left out, and the number of pairs that are left.
    """
    counts = {"num_empty": 0, "num_too_long": 0}
    lengths = dict.fromkeys(types, 0)
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(open(folder / f"{name}.npy", "wb"))
            for name in types
        }

        def append(name: str, values: Iterable[int]) -> None:
            array = np.fromiter(values, types[name])
            # Not `tofile`, whose error does not say that the disk is full.
            files[name].write(array.data)
            lengths[name] += len(array)

        def write_headers() -> None:
            # NumPy leaves room for any length, so the size stays the same.
            for name, file in files.items():
                file.seek(0)
                header = {
                    "descr": np.dtype(types[name]).str,
                    "fortran_order": False,
                    "shape": (lengths[name],),
                }
                np.lib.format.write_array_header_1_0(file, header)

        write_headers()
        for side in SIDES:
            append(f"{side}_offsets", [0])
        for batch in batched(enumerate(corpus, start=1), _BATCH_LINES):
            full = [
                (number, pair)
                for number, pair in batch
                if clean_text(pair[0]) and clean_text(pair[1])
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
                ends = np.cumsum([len(row) for row in kept], dtype=np.int64)
                append(f"{side}_offsets", lengths[f"{side}_ids"] + ends)
                append(f"{side}_ids", itertools.chain.from_iterable(kept))
        write_headers()
    return counts, lengths["line_numbers"]
