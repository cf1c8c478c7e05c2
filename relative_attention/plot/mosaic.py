"""Puts many matrices into one image."""

from collections.abc import Sequence

import numpy as np


def mosaic(
    rows: Sequence[Sequence[np.ndarray] | np.ndarray], gap: int = 1
) -> np.ndarray:
    """Puts matrices of one shape side by side and one below the other.

    matplotlib draws one image at once; a plot for each matrix takes seconds.

    Args:
        rows: list of lists, as long as one another, of arrays `(H, W)`.
        gap: int. The number of rows and columns of `nan` between two.
            Defaults to `1`.

    Returns:
        Array, float.
    """
    height, width = rows[0][0].shape
    image = np.full(
        (
            len(rows) * (height + gap) - gap,
            len(rows[0]) * (width + gap) - gap,
        ),
        np.nan,
    )
    for row, matrices in enumerate(rows):
        for column, matrix in enumerate(matrices):
            top, left = row * (height + gap), column * (width + gap)
            image[top : top + height, left : left + width] = matrix
    return image


def centers(count: int, size: int, gap: int = 1) -> np.ndarray:
    """Returns where the middles of matrices of this size are on one axis."""
    return np.arange(count) * (size + gap) + (size - 1) / 2
