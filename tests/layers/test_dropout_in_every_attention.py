"""Scores are dropped once, for values and their relations alike."""

import numpy as np
import pytest

import relative_attention as ra

B, T, D, N, H = 2, 7, 11, 3, 4
DROPOUT = {"dropout": 0.5, "seed": 7}


@pytest.mark.parametrize(
    "layer",
    [
        ra.RelativeSelfAttention(N, H, 2, **DROPOUT),
        ra.RelationAwareSelfAttention(N, H, 4, **DROPOUT),
        ra.RelativeGlobalAttention(
            N, H, 3, use_value_relations=True, **DROPOUT
        ),
        ra.RelativeGlobalAttention(
            N, H, 3, causal=True, use_value_relations=True, **DROPOUT
        ),
    ],
    ids=["relative", "relation_aware", "global", "global_causal"],
)
def test_one_dropout_serves_values_and_their_relations(rng, layer):
    inputs = [rng.normal(size=(B, T, D)).astype("float32")]
    if isinstance(layer, ra.RelationAwareSelfAttention):
        inputs.append(rng.integers(0, 4, size=(B, T, T)).astype("int32"))
    layer.build((None, None, D))
    weights = layer.get_weights()

    def outputs(*kept, training=True):
        """Those of a new layer, the same draw; outputs are linear in both."""
        clone = type(layer).from_config(layer.get_config())
        clone.build((None, None, D))
        clone.set_weights(weights)
        for name, weight in (
            ("values", clone.value_dense.kernel),
            ("relations", clone.value_relation_embeddings),
        ):
            if name not in kept:
                weight.assign(np.zeros(weight.shape))
        return np.array(clone(*inputs, training=training))

    for kept in ("values", "relations"):
        difference = outputs(kept) - outputs(kept, training=False)
        assert np.abs(difference).max() > 1e-3, kept
    np.testing.assert_allclose(
        outputs("values") + outputs("relations"),
        outputs("values", "relations"),
        rtol=1e-5,
        atol=1e-5,
    )
