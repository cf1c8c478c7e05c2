"""Rows of a batch, part after part, counted by hand."""

import numpy as np
import pytest

from relative_attention.models.batch_parts import BatchParts

pytestmark = pytest.mark.only_on("tensorflow", reason="parts of a batch")

ROWS = np.arange(1, 8)


def parts_of(rows, num_parts, equal):
    import tensorflow as tf

    batch = ({"ids": tf.constant(rows[:, None])}, tf.constant(rows), None)
    parts = BatchParts(batch, tf.shape(batch[1])[0], num_parts, equal)
    found = []
    while parts.has(len(found)):
        x, y, nothing = parts.part(len(found))
        assert nothing is None
        np.testing.assert_array_equal(x["ids"][:, 0], y)
        found.append(y.numpy().tolist())
    return found


@pytest.mark.parametrize(
    "rows, equal, expected",
    [
        (ROWS, False, [[1, 2, 3], [4, 5, 6], [7]]),
        (ROWS, True, [[1, 2, 3], [4, 5, 6], [7, 0, 0]]),
        (ROWS[:4], False, [[1, 2], [3, 4]]),
        (ROWS[:1], True, [[1]]),
        (ROWS[:0], False, []),
        (ROWS[:0], True, []),
    ],
    ids=["seven", "equal", "two_parts", "one", "none", "none_equal"],
)
def test_rows_come_in_parts(rows, equal, expected):
    assert parts_of(rows, 3, equal) == expected
