"""The terms of eqs. 3 and 4 against the same in float64."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.attention_parts import cross_attention_parts
from relative_attention.layers.attention_parts import self_attention_parts
from tests.layers.paper import assert_same
from tests.layers.paper import clipped
from tests.layers.paper import edges
from tests.layers.paper import normal
from tests.layers.paper import project
from tests.layers.paper import weights_of

B, T, S, D, N, H, H_V, K = 2, 7, 4, 11, 3, 5, 2, 2

LAYERS = {
    "a table per head": {"share_relations_across_heads": False},
    "K = 0": {"max_relative_position": 0},
    "values alone": {"use_key_relations": False},
    "no relations": {"use_key_relations": False, "use_value_relations": False},
    "biases": {"use_bias": True},
}


def terms(weights, inputs, source, limit, allowed):
    """Eqs. 2 to 4 of the paper, the fields of `AttentionParts`, and outputs.

    Args:
        weights: what `weights_of` gives.
        inputs, source: arrays `(B, T, D)` and `(B, S, D)`.
        limit: the clipping distance.
        allowed: bool `(B, T, S)`, `True` where a query may attend.
    """
    query = project(weights, "query", inputs) / H**0.5
    key, value = (project(weights, name, source) for name in ("key", "value"))
    rows = clipped(T, limit)[:, : source.shape[1]]
    key_edges, value_edges = (
        edges(weights, kind, rows) for kind in ("key", "value")
    )
    content = np.einsum("bnth,bnsh->bnts", query, key)
    position = (query[:, :, :, None] * key_edges).sum(-1)
    table = weights.get("key_relation_embeddings", np.zeros((1, H)))
    table = np.broadcast_to(table, (N, *table.shape[-2:]))
    exponents = np.exp(content + position) * allowed[:, None]
    total = exponents.sum(-1, keepdims=True)
    scores = exponents / np.where(total == 0, 1, total)
    of_values = np.einsum("bnts,bnsh->bnth", scores, value)
    of_edges = (scores[..., None] * value_edges).sum(-2)
    z = of_values + of_edges
    square = (z**2).sum(-1, keepdims=True)
    along = z / np.where(square == 0, 1, square)
    outputs = np.einsum("bnth,nhd->btd", z, weights["output/kernel"])
    return {
        "content_logits": content,
        "position_logits": position,
        "scores": scores,
        "value_context": of_values,
        "relation_context": of_edges,
        "value_shares": scores * np.einsum("bnth,bnsh->bnts", along, value),
        "relation_shares": scores
        * (along[:, :, :, None] * value_edges).sum(-1),
        "distance_logits": np.einsum("bnth,nrh->bntr", query, table),
        "outputs": outputs + weights.get("output/bias", 0),
    }


def assert_terms(outputs, parts, weights, *arguments):
    found = {**parts._asdict(), "outputs": outputs}
    if "key_relation_embeddings" not in weights:
        assert found.pop("distance_logits") is None
    expected = terms(weights, *arguments)
    for name, array in found.items():
        assert_same(array, expected[name])


@pytest.mark.parametrize("name", LAYERS)
def test_terms_of_self_attention_are_the_papers(name, rng, randomize):
    arguments = {"max_relative_position": K, **LAYERS[name]}
    layer = ra.RelativeSelfAttention(N, H, value_dim=H_V, **arguments)
    layer.build((None, None, D))
    randomize(layer)
    inputs = normal(rng, B, T, D)
    # A sentence of each length, and causality; one query sees nothing.
    mask = np.ones((B, T, T), bool)
    mask[1, :, 5:] = False
    mask[0, 3] = False
    outputs, parts = self_attention_parts(
        layer, inputs, attention_mask=mask, use_causal_mask=True
    )
    limit = arguments["max_relative_position"]
    allowed = np.tril(mask)
    assert_terms(
        outputs, parts, weights_of(layer), inputs, inputs, limit, allowed
    )


def test_terms_of_cross_attention_are_all_content(rng, randomize):
    layer = ra.CrossAttention(N, H, value_dim=H_V, use_bias=True)
    inputs, source = normal(rng, B, T, D), normal(rng, B, S, D)
    is_real = np.arange(S) < np.array([S, 2])[:, None]
    layer.build(inputs.shape, source.shape)
    randomize(layer)
    outputs, parts = cross_attention_parts(layer, inputs, source, is_real)
    allowed = np.broadcast_to(is_real[:, None], (B, T, S))
    assert_terms(outputs, parts, weights_of(layer), inputs, source, K, allowed)
    assert_same(outputs, layer(inputs, source, padding_mask=is_real))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_shares_of_a_short_output_sum_to_one_in_half_precision(dtype, rng):
    layer = ra.RelativeSelfAttention(N, H, K, dtype=f"mixed_{dtype}")
    layer.build((None, None, D))
    # So short that their squares are zero in float16.
    for weight in (layer.value_dense.kernel, layer.value_relation_embeddings):
        weight.assign(1e-4 * rng.normal(size=weight.shape))
    inputs = keras.ops.cast(normal(rng, B, T, D), dtype)
    _, parts = self_attention_parts(layer, inputs)
    shares = keras.ops.sum(parts.value_shares + parts.relation_shares, axis=-1)
    # The output itself has been rounded to 11 or 8 bits.
    np.testing.assert_allclose(shares, np.ones((B, N, T)), atol=0.1)
