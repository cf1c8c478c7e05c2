import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import clipped_relative_positions


def reference(query_positions, key_positions, limit):
    """Section 3.2 of the paper, edge by edge."""
    return [
        [max(-limit, min(limit, j - i)) + limit for j in key_positions]
        for i in query_positions
    ]


@pytest.mark.parametrize("limit", [0, 1, 3, 13])
@pytest.mark.parametrize(
    "query_positions, key_positions",
    [
        (range(7), range(7)),
        (range(5), range(11)),
        ([4], range(7)),
        ([2, 0, 19], [5, 3, 3, 0]),
    ],
    ids=["self", "rectangular", "one_query", "any_order"],
)
def test_clipped_relative_positions_are_those_of_the_paper(
    query_positions, key_positions, limit
):
    result = clipped_relative_positions(
        np.array(query_positions), np.array(key_positions), limit
    )
    assert keras.backend.standardize_dtype(result.dtype) == "int32"
    np.testing.assert_array_equal(
        result, reference(query_positions, key_positions, limit)
    )


@pytest.mark.parametrize("case", range(16))
def test_clipped_relative_positions_are_tensor2tensors(golden, case):
    golden = golden("A1_relative_positions_matrix")
    info = golden.info["cases"][case]
    keys = np.arange(info["length_k"])
    # tensor2tensor's queries are the last ones; a cached query is the last.
    queries = keys[-1:] if info["cache"] else keys[-info["length_q"] :]
    result = clipped_relative_positions(
        queries, keys, info["max_relative_position"]
    )
    np.testing.assert_array_equal(result, golden[f"case{case}/matrix"])


def test_clipped_relative_positions_of_a_cached_query_are_its_row():
    positions = ops.arange(7)
    matrix = clipped_relative_positions(positions, positions, 2)
    for index in range(7):
        # The cache has room for all seven keys from the start.
        row = clipped_relative_positions(ops.array([index]), positions, 2)
        np.testing.assert_array_equal(row, matrix[index : index + 1])


def test_clipped_relative_positions_refuse_a_negative_limit():
    with pytest.raises(ValueError) as error:
        clipped_relative_positions(ops.arange(3), ops.arange(3), -4)
    assert str(error.value) == (
        "`max_relative_position` must be a non-negative int (tokens on either "
        "side). Received: max_relative_position=-4."
    )
