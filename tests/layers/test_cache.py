"""A position at a time with a cache is one causal pass.

`tests/positions/test_every_position_encoding.py` has it for every encoding.
"""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers.cache import KeyValueCache
from relative_attention.layers.cache import cached_attention
from relative_attention.layers.cache import fixed_cache

B, D, N, H, M = 2, 7, 3, 5, 3
NUM_STEPS, NUM_POSITIONS = 5, 8


def one_head(position_encoding=None):
    """A layer of one head of one number."""
    layer = ra.SelfAttention(1, 1, position_encoding, bidirectional=False)
    layer.build((None, None, 1))
    return layer


def test_second_beam_continues_the_first_by_hand():
    # Keys are zero, so that a beam attends to its history alike; values are
    # 1 and 2 at the first position, 10 and 20 at the second.
    zeros = ops.zeros((1, 1, 2, 1))
    cache = KeyValueCache.empty(1, 1, 1, 1, "float32")
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
    cache = KeyValueCache.empty(1, 1, 1, 1, "float32")
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


def steps(layer, cache, inputs, ancestors, room):
    """Outputs of every step; `ancestors` have `room` columns, or none to spare.

    What later columns say must not matter.
    """
    given = np.full((*ancestors.shape[:2], NUM_POSITIONS), 1, "int32")
    given[..., :NUM_STEPS] = ancestors
    for position in range(NUM_STEPS):
        result, cache = layer.decode_step(
            inputs[position],
            cache,
            position,
            ancestors=given[..., : room or position + 1],
        )
        yield keras.ops.convert_to_numpy(result)


@pytest.mark.parametrize("num_beams", [M, 1])
@pytest.mark.parametrize("limit", [2, 0, 9], ids="K={}".format)
def test_steps_are_those_of_a_growing_cache(rng, randomize, limit, num_beams):
    layer = ra.RelativeSelfAttention(N, H, limit)
    layer.build((B, None, D))
    randomize(layer)
    inputs = rng.normal(size=(NUM_STEPS, B, num_beams, D)).astype("float32")
    ancestors = rng.integers(0, num_beams, (B, num_beams, NUM_STEPS))
    growing = steps(layer, layer.start_cache(B), inputs, ancestors, room=None)
    mask = np.ones((B, 4), bool)
    cache = fixed_cache(
        {"mask": mask, "blocks": [{"self": layer.start_cache(B)}]},
        NUM_POSITIONS * num_beams,
    )
    assert cache["mask"] is mask
    fixed = steps(
        layer, cache["blocks"][0]["self"], inputs, ancestors, NUM_POSITIONS
    )
    for result, expected in zip(fixed, growing, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
