"""A cache of fixed size gives what a growing one does."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.cache import fixed_cache

B, M, N, H, D = 2, 3, 2, 5, 7
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
