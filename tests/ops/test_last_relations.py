"""A query at position 2 or 0, `K = 2`; numbers by hand."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops.last_relations import last_relation_context
from relative_attention.ops.last_relations import last_relation_logits

# Of the distances -1 and 0.
RELATIONS = np.array([[1, 0], [0, 10]], "float32")


@pytest.mark.parametrize(
    ("position", "expected"),
    # The query is (3, 4): it has 3 in common with -1 and 40 with 0.
    [(2, [0, 3, 40]), (1, [3, 40]), (0, [40])],
)
def test_only_the_last_positions_have_logits(position, expected):
    query = ops.array([[[[3.0, 4.0]]]])
    logits = last_relation_logits(query, RELATIONS, position)
    np.testing.assert_array_equal(logits[0, 0], [expected])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([5.0, 2.0, 3.0], [2, 30]), ([2.0, 3.0], [2, 30]), ([3.0], [0, 30])],
    ids=len,
)
def test_only_the_last_positions_have_context(scores, expected):
    context = last_relation_context(
        ops.array([[[scores]]]), RELATIONS, len(scores) - 1
    )
    np.testing.assert_array_equal(context[0, 0], [expected])


def test_heads_may_have_relations_of_their_own():
    query = ops.array([[[[3.0, 4.0], [3.0, 4.0]]]])
    relations = np.stack([RELATIONS, 2 * RELATIONS])
    logits = last_relation_logits(query, relations, 1)
    np.testing.assert_array_equal(logits[0, 0], [[3, 40], [6, 80]])
