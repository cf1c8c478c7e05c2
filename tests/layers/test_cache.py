"""A position at a time with a cache is one causal pass."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers import SelfAttention
from relative_attention.layers.cache import KeyValueCache
from relative_attention.layers.cache import cached_attention
from relative_attention.layers.cache import fixed_cache
from relative_attention.positions import Relative

B, T, D, N, H, H_V, M = 2, 5, 7, 3, 5, 4, 3


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def clipped(length, max_relative_position):
    distance = np.arange(length) - np.arange(length)[:, None]
    return (
        np.clip(distance, -max_relative_position, max_relative_position)
        + max_relative_position
    )


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def one_head(position_encoding=None):
    """A layer of one head of one number."""
    layer = SelfAttention(1, 1, position_encoding, bidirectional=False)
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
    layer = one_head(Relative(1))
    layer.key_relation_embeddings.assign([[np.log(3)], [0.0], [99.0]])
    layer.value_relation_embeddings.assign([[100.0], [200.0], [999.0]])
    result = cached_attention(layer, ops.ones((1, 1, 1, 1)), cache, 1)
    expected = 3 / 4 * (8 + 100) + 1 / 4 * (4 + 200)
    np.testing.assert_allclose(ops.reshape(result, ()), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "distance, arguments",
    [
        (2, {}),
        (2, {"share_relations_across_heads": False}),
        (2, {"use_value_relations": False, "use_bias": True}),
        (2, {"use_key_relations": False}),
        (0, {}),
        (1, {"share_relations_across_heads": False}),
        (T + 3, {}),
    ],
    ids=[
        "both",
        "apart",
        "keys_only",
        "values_only",
        "clipped_at_0",
        "clipped_at_1",
        "unclipped",
    ],
)
def test_beams_attend_to_the_history_of_their_ancestors(
    rng, randomize, weights_of, paper_attention, distance, arguments
):
    layer = RelativeSelfAttention(N, H, distance, value_dim=H_V, **arguments)
    layer.build((None, None, D))
    randomize(layer)
    weights = weights_of(layer)
    # What each beam of each sentence writes at each position, and which beam
    # of the position before it continues.
    inputs = normal(rng, B, M, T, D)
    parents = rng.integers(0, M, size=(B, M, T))
    beams = np.broadcast_to(np.arange(M)[:, None], (B, M, 1))
    ancestors = np.zeros((B, M, 0), int)
    cache = layer.start_cache(B)
    for position in range(T):
        rows = parents[:, :, position, None]
        ancestors = np.take_along_axis(ancestors, rows, axis=1)
        ancestors = np.concatenate([ancestors, beams], axis=2)
        outputs, cache = layer.decode_step(
            inputs[:, :, position], cache, position, ancestors.astype("int32")
        )
        histories = np.take_along_axis(
            inputs[:, :, : position + 1], ancestors[..., None], axis=1
        )
        length = position + 1
        expected, _ = paper_attention(
            weights,
            histories.reshape(B * M, length, D),
            clipped(length, distance),
            np.tri(length, dtype=bool),
        )
        assert_same(outputs, expected[:, -1].reshape(B, M, D))
        if position % 2:
            # When it is merged makes no difference.
            cache = layer.merge_cache(cache)
            assert cache.key.shape == (B, N, M * length, H)
            assert cache.recent_value.shape == (B, N, 0, H_V)


NUM_STEPS, NUM_POSITIONS = 5, 8


def outputs(layer, cache, inputs, ancestors, room):
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
@pytest.mark.parametrize(
    "options",
    [{}, {"share_relations_across_heads": False}, {"use_key_relations": False}],
    ids=["shared", "per_head", "values"],
)
def test_steps_are_those_of_a_growing_cache(options, limit, num_beams, rng):
    layer = ra.RelativeSelfAttention(N, H, limit, **options)
    layer.build((B, None, D))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    inputs = rng.normal(size=(NUM_STEPS, B, num_beams, D)).astype("float32")
    ancestors = rng.integers(0, num_beams, (B, num_beams, NUM_STEPS))
    # A beam has always written its own position.
    growing = outputs(layer, layer.start_cache(B), inputs, ancestors, room=None)
    fixed = outputs(
        layer,
        fixed_cache(layer.start_cache(B), NUM_POSITIONS * num_beams),
        inputs,
        ancestors,
        room=NUM_POSITIONS,
    )
    for result, expected in zip(fixed, growing, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_other_tensors_of_a_cache_are_left(rng):
    layer = ra.RelativeSelfAttention(N, H, 2)
    layer.build((B, None, D))
    mask = np.ones((B, 4), bool)
    cache = {"mask": mask, "blocks": [{"self": layer.start_cache(B)}]}
    fixed = fixed_cache(cache, 6)
    assert fixed["mask"] is mask
    assert fixed["blocks"][0]["self"].key.shape == (B, N, 6, H)
