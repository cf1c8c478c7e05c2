"""Rows of token ids become one array."""

import numpy as np

from relative_attention.decoding.padded_rows import padded_rows


def test_shorter_rows_are_padded_on_the_right():
    padded = padded_rows([(5, 6, 1), [], (7, 1)])
    np.testing.assert_array_equal(padded, [[5, 6, 1], [0, 0, 0], [7, 1, 0]])
    assert padded.dtype == np.int32
