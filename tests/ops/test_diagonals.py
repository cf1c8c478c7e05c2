import numpy as np
import pytest
from keras import ops

from relative_attention.ops.diagonals import add_to_diagonals
from relative_attention.ops.diagonals import diagonals

pytestmark = pytest.mark.only_on("tensorflow", reason="has its operations")

LETTERS = np.array(
    [[1, 2, 3, 0, 0], [0, 4, 5, 6, 0], [0, 0, 7, 8, 9]], "float32"
)


def test_columns_are_queries():
    # The example of the module, of queries from position 1 on.
    read = diagonals(LETTERS[None, None], 1 - 1, 1 + 1)
    np.testing.assert_array_equal(read[0, 0], [[3, 6, 9], [2, 5, 8], [1, 4, 7]])


@pytest.mark.parametrize(
    ("lowest", "highest"), [(-2, 4), (-1, 1), (0, 0), (0, 2)]
)
def test_keys_that_do_not_exist_are_zeros(rng, lowest, highest):
    matrix = rng.normal(size=(2, 3, 3, 5))
    expected = np.zeros((2, 3, highest - lowest + 1, 3))
    for row, diagonal in enumerate(range(highest, lowest - 1, -1)):
        for query in range(3):
            if 0 <= query + diagonal < 5:
                expected[:, :, row, query] = matrix[
                    :, :, query, query + diagonal
                ]
    np.testing.assert_array_equal(
        diagonals(ops.convert_to_tensor(matrix), lowest, highest), expected
    )


@pytest.mark.parametrize(("lowest", "highest"), [(-2, 4), (0, 0), (1, 2)])
def test_what_is_added_is_read(lowest, highest):
    more = np.arange(1.0, 3 * (highest - lowest + 1) + 1).reshape(-1, 3)
    total = add_to_diagonals(
        ops.zeros((1, 1, 3, 5), "float64"),
        ops.convert_to_tensor(more[None, None]),
        lowest,
        highest,
    )
    added = np.array(total[0, 0])
    # What lies beyond the matrix is dropped, and nothing else is written.
    for (query, key), number in np.ndenumerate(added):
        inside = lowest <= key - query <= highest
        expected = more[highest - (key - query), query] if inside else 0
        assert number == expected
