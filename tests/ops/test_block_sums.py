import numpy as np
from keras import ops

from relative_attention.ops.block_operands import Operands
from relative_attention.ops.block_sums import sum_gradients


def row(*numbers):
    """One number for each position, `(1, 1, positions, 1)`."""
    return ops.reshape(ops.array(numbers, "float32"), (1, 1, -1, 1))


def test_gradients_of_blocks_are_summed_over_the_keys_they_saw():
    zeros = row(0, 0, 0, 0, 0, 0)
    table = ops.zeros((3, 1))
    # Three blocks of two queries: the keys up to 3, 5, 6 are near or left of
    # them, those from 3 and 5 on to the right of the first two.
    sums = sum_gradients(
        [
            Operands(
                query=row(1, 2),
                key=row(1, 1, 1),
                value=row(2, 2, 2),
                key_relations=ops.ones((3, 1)),
                key_right=row(5, 5, 5),
                value_right=row(6, 6, 6),
            ),
            Operands(
                query=row(3, 4),
                key=row(10, 10, 10, 10, 10),
                value=row(0, 0, 0, 0, 0),
                key_relations=ops.ones((3, 1)) * 10,
                key_right=row(50),
                value_right=row(60),
            ),
            Operands(
                query=row(5, 6),
                key=row(100, 100, 100, 100, 100, 100),
                value=row(7, 7, 7, 7, 7, 7),
                key_relations=ops.ones((3, 1)) * 100,
            ),
        ],
        Operands(zeros, zeros, zeros, table, None, zeros, zeros),
    )
    expected = {
        "query": [1, 2, 3, 4, 5, 6],
        "key": [111, 111, 111, 110, 110, 100],
        "value": [9, 9, 9, 7, 7, 7],
        "key_relations": [111, 111, 111],
        "key_right": [0, 0, 0, 5, 5, 55],
        "value_right": [0, 0, 0, 6, 6, 66],
    }
    assert list(sums.present()) == list(expected)
    for name, wanted in expected.items():
        np.testing.assert_array_equal(
            ops.reshape(getattr(sums, name), (-1,)), wanted
        )
