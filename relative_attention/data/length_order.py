"""Pairs of a corpus in the order of their lengths."""

import dataclasses

import numpy as np

# Pairs looked at together; bounds what is in memory.
_CHUNK = 1 << 18


@dataclasses.dataclass(frozen=True)
class LengthOrder:
    """Pairs by their longer side, then by how far the two sides differ.

    Pairs of the same two lengths form a cell, in which they stand as in the
    corpus.

    Attributes:
        pairs: int array `(pairs,)`, indices of pairs in this order.
        longest: int64 array `(cells,)`, the longer side of each cell.
        difference: int64 array `(cells,)`, source length less target length.
        starts: int64 array `(cells + 1,)`, where each cell starts in `pairs`.
    """

    pairs: np.ndarray
    longest: np.ndarray
    difference: np.ndarray
    starts: np.ndarray


def order_by_length(source_offsets, target_offsets, pairs):
    """Sort pairs by their lengths, a part of them at a time.

    Args:
        source_offsets: int array `(pairs + 1,)`, the offset of each sentence.
        target_offsets: int array `(pairs + 1,)`.
        pairs: int array `(pairs,)` to fill, in memory or mapped to a file.

    Returns:
        `LengthOrder`.
    """
    cells, starts = _cells(source_offsets, target_offsets, len(pairs))
    free = starts[:-1].copy()
    for first, keys in _chunks(source_offsets, target_offsets, len(pairs)):
        order = np.argsort(keys, kind="stable")
        present, counts = np.unique(keys, return_counts=True)
        cell = np.searchsorted(cells, present)
        # Where the pairs of a cell go, one after another.
        shift = free[cell] - (np.cumsum(counts) - counts)
        pairs[np.repeat(shift, counts) + np.arange(len(keys))] = order + first
        free[cell] += counts
    return LengthOrder(pairs, cells >> 32, (cells & _LOW) - _BIAS, starts)


def _cells(source_offsets, target_offsets, num_pairs):
    """Keys of all cells, ascending, and where each cell starts."""
    keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for _, some in _chunks(source_offsets, target_offsets, num_pairs):
        more = np.unique(some, return_counts=True)
        both = np.concatenate([keys, more[0]])
        both_counts = np.concatenate([counts, more[1]])
        keys, where = np.unique(both, return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, where, both_counts)
    return keys, np.concatenate([[0], np.cumsum(counts)])


# A key is the longer side in the upper half, the difference in the lower.
_LOW = (1 << 32) - 1
_BIAS = 1 << 31


def _chunks(source_offsets, target_offsets, num_pairs):
    """Yield the first index of a chunk of pairs, and the keys of its cells."""
    for first in range(0, num_pairs, _CHUNK):
        part = slice(first, first + _CHUNK + 1)
        source, target = (
            np.diff(offsets[part].astype(np.int64)) + 1
            for offsets in (source_offsets, target_offsets)
        )
        longest = np.maximum(source, target)
        yield first, (longest << 32) + (source - target) + _BIAS
