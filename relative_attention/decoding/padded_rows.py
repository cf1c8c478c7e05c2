"""Pads rows of token ids to one length."""

from collections.abc import Sequence

import numpy as np


def padded_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns rows of ids as one array, padded with 0 on the right.

    Args:
        rows: A list of at least one row of token ids.

    Returns:
        An int32 array `(B, T)`, where `T` is the length of the longest row.
    """
    padded = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded
