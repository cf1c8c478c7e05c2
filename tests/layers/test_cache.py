"""Attention of one position with a cache, by hand.

`tests/layers/positions/test_every_position_encoding.py` has steps of every
encoding, `tests/decoding/test_beam_search.py` caches of a fixed size.
"""

import numpy as np
from keras import ops

import relative_attention as ra
from relative_attention.layers.cache import cached_attention


def one_head(position_encoding=None):
    """A layer of one head of one number."""
    layer = ra.SelfAttention(1, 1, position_encoding, bidirectional=False)
    layer.build((None, None, 1))
    return layer


def test_second_beam_continues_the_first_by_hand():
    # Keys are zero, so that a beam attends to its history alike; values are
    # 1 and 2 at the first position, 10 and 20 at the second.
    zeros = ops.zeros((1, 1, 2, 1))
    cache = one_head().start_cache(1)
    for values in ([1.0, 2.0], [10.0, 20.0]):
        cache = cache.extended(
            zeros, ops.reshape(ops.array(values), (1, 1, 2, 1))
        )
    query = ops.ones((1, 2, 1, 1))

    def context(ancestors):
        if ancestors is not None:
            ancestors = np.array([ancestors], "int32")
        result = cached_attention(one_head(), query, cache, 1, ancestors)
        return np.ravel(ops.convert_to_numpy(result)).tolist()

    # Each wrote its own history.
    assert context(None) == [(1 + 10) / 2, (2 + 20) / 2]
    # The first beam wrote the first position of both.
    assert context([[0, 0], [0, 1]]) == [(1 + 10) / 2, (1 + 20) / 2]
    # The beams changed places.
    assert context([[1, 0], [0, 1]]) == [(2 + 10) / 2, (1 + 20) / 2]


def test_relations_reach_back_by_hand():
    # With zero keys a logit is the query times the table's row: of distance
    # -1, ln 3, and of distance 0, 0. Scores are 3/4 and 1/4.
    cache = one_head().start_cache(1)
    for value in (8.0, 4.0):
        cache = cache.extended(
            ops.zeros((1, 1, 1, 1)), ops.full((1, 1, 1, 1), value)
        )
    layer = one_head(ra.positions.Relative(1))
    layer.key_relation_embeddings.assign([[np.log(3)], [0.0], [99.0]])
    layer.value_relation_embeddings.assign([[100.0], [200.0], [999.0]])
    result = cached_attention(layer, ops.ones((1, 1, 1, 1)), cache, 1)
    expected = 3 / 4 * (8 + 100) + 1 / 4 * (4 + 200)
    np.testing.assert_allclose(ops.reshape(result, ()), expected, rtol=1e-6)
