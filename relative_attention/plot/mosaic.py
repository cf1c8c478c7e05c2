"""Many matrices as one image."""

import numpy as np


def mosaic(rows, gap=1):
    """Put matrices of one shape side by side and one below the other.

    matplotlib draws one image at once; a plot for each matrix takes seconds.

    Args:
        rows: list of lists, as long as one another, of arrays `(H, W)`.
        gap: int. How many rows and columns of `nan` stand between two.
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


def centers(count, size, gap=1):
    """Where the middles of matrices of this size are, along one axis."""
    return np.arange(count) * (size + gap) + (size - 1) / 2
