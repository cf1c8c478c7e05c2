"""The terms of eqs. 3 and 4 against the same in float64."""

import numpy as np
import pytest

import relative_attention as ra
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
    """Eqs. 2 to 4 of the paper, the fields of `AttentionTerms`, and outputs.

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
    exponents = np.exp(content + position) * allowed[:, None]
    total = exponents.sum(-1, keepdims=True)
    scores = exponents / np.where(total == 0, 1, total)
    of_values = np.einsum("bnts,bnsh->bnth", scores, value)
    of_edges = (scores[..., None] * value_edges).sum(-2)
    z = of_values + of_edges
    outputs = np.einsum("bnth,nhd->btd", z, weights["output/kernel"])
    return {
        "query": query,
        "value": value,
        "content_logits": content,
        "position_logits": position,
        "scores": scores,
        "value_context": of_values,
        "position_context": of_edges,
        "outputs": outputs + weights.get("output/bias", 0),
    }


def assert_terms(outputs, found, weights, *arguments):
    found = {**found._asdict(), "outputs": outputs}
    for name, expected in terms(weights, *arguments).items():
        if found[name] is None:
            assert not expected.any()
        else:
            assert_same(found[name], expected)


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
    outputs, found = layer.attention_terms(
        inputs, attention_mask=mask, use_causal_mask=True
    )
    limit = arguments["max_relative_position"]
    allowed = np.tril(mask)
    assert_terms(
        outputs, found, weights_of(layer), inputs, inputs, limit, allowed
    )


def test_terms_of_cross_attention_are_all_content(rng, randomize):
    layer = ra.CrossAttention(N, H, value_dim=H_V, use_bias=True)
    inputs, source = normal(rng, B, T, D), normal(rng, B, S, D)
    is_real = np.arange(S) < np.array([S, 2])[:, None]
    layer.build(inputs.shape, source.shape)
    randomize(layer)
    outputs, found = layer.attention_terms(inputs, source, is_real)
    allowed = np.broadcast_to(is_real[:, None], (B, T, S))
    assert_terms(outputs, found, weights_of(layer), inputs, source, K, allowed)
    assert_same(outputs, layer(inputs, source, padding_mask=is_real))


def test_terms_of_a_graph_are_those_of_equal_distances(rng, randomize):
    graph = ra.RelationAwareSelfAttention(N, H, 2 * K + 1, value_dim=H_V)
    layer = ra.RelativeSelfAttention(N, H, K, value_dim=H_V)
    for one in (graph, layer):
        one.build((None, None, D))
    randomize(graph)
    layer.set_weights(graph.get_weights())
    inputs = normal(rng, B, T, D)
    found = graph.attention_terms(inputs, clipped(T, K), use_causal_mask=True)
    expected = layer.attention_terms(inputs, use_causal_mask=True)
    assert_same(found[0], expected[0])
    for one, other in zip(found[1], expected[1]):
        assert_same(one, other)
