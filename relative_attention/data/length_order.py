"""Sorts the pairs of a corpus by length, with bounded memory."""

import collections
import dataclasses
from collections.abc import Iterator

import numpy as np

# Pairs sorted at a time, which bounds the memory.
_CHUNK = 1 << 18
# A sort key has the longer length in its upper 32 bits. The lower ones hold
# this plus the difference, which may be negative.
_ZERO = 1 << 31


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
        pairs: int array `(num_pairs,)`. Index of the pair at each position of
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
    source_offsets: np.ndarray, target_offsets: np.ndarray, pairs: np.ndarray
) -> LengthOrder:
    """Sorts pairs by their lengths, a chunk of them at a time.

    This is a counting sort. A first pass over the corpus counts the pairs of
    each length group, which gives the start of each group. A second pass puts
    every pair in its position.

    Args:
        source_offsets: int array `(num_pairs + 1,)`. Offset of each source
            sentence in the flat array of ids.
        target_offsets: int array `(num_pairs + 1,)`. The same of the target.
        pairs: int array `(num_pairs,)` to fill, in memory or mapped to a file.

    Returns:
        `LengthOrder` that holds `pairs`.
    """
    offsets = (source_offsets, target_offsets)
    sizes: collections.Counter[int] = collections.Counter()
    for _, keys in _sort_keys(offsets, len(pairs)):
        present, counts = np.unique(keys, return_counts=True)
        sizes.update(dict(zip(present.tolist(), counts.tolist())))
    groups = np.array(sorted(sizes), np.int64)
    starts = np.cumsum([0, *(sizes[group] for group in groups.tolist())])
    # Position of the next pair of each length group.
    free = starts[:-1].copy()
    for first, keys in _sort_keys(offsets, len(pairs)):
        order = np.argsort(keys, kind="stable")
        present, counts = np.unique(keys, return_counts=True)
        places = np.searchsorted(groups, present)
        # The pairs of a group are contiguous in the sorted chunk and in the
        # result, in the same order, so each group is moved as a whole.
        shift = free[places] - (np.cumsum(counts) - counts)
        pairs[np.repeat(shift, counts) + np.arange(len(order))] = order + first
        free[places] += counts
    difference = (groups & (2 * _ZERO - 1)) - _ZERO
    return LengthOrder(pairs, groups >> 32, difference, starts)


def _sort_keys(
    offsets: tuple[np.ndarray, np.ndarray], num_pairs: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the index of the first pair of a chunk, and the keys of all."""
    for first in range(0, num_pairs, _CHUNK):
        # Each pair needs the offset of the next one.
        chunk = slice(first, first + _CHUNK + 1)
        source, target = (
            np.diff(each[chunk].astype(np.int64)) + 1 for each in offsets
        )
        longest = np.maximum(source, target)
        yield first, (longest << 32) + (source - target + _ZERO)
