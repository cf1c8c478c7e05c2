"""Batches of sentences of like length, as arrays of token ids."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np


def longest_first_batches(
    lengths: Mapping[int, tuple[int, ...]], max_tokens: int
) -> Iterator[list[int]]:
    """Groups sentences into batches of about the same number of tokens.

    The longest come first so that a batch too large for the memory is noticed
    at once and not after an hour.

    Args:
        lengths: dict of the index of each sentence to its lengths. The first
            is what it costs, padded to the longest of its batch; the others
            decide the order of those that cost the same.
        max_tokens: int. Most tokens of a batch; a sentence that is longer is
            a batch of its own.

    Yields:
        Lists of indices.
    """
    longest_first = sorted(
        lengths, key=lambda index: lengths[index], reverse=True
    )
    start = 0
    while start < len(longest_first):
        longest = lengths[longest_first[start]][0]
        size = max(1, max_tokens // longest)
        yield longest_first[start : start + size]
        start += size


def padded_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Makes an int32 array `(B, S)` of rows of ids, padded with id 0."""
    padded = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded
