"""The terms of eqs. 3 and 4 against loops over them, in float64."""

import keras
import numpy as np
import pytest

from relative_attention.layers import CrossAttention
from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers.attention_parts import cross_attention_parts
from relative_attention.layers.attention_parts import self_attention_parts

B, T, S, D, N, H, H_V, K = 2, 7, 4, 11, 3, 5, 2, 2


TOLERANCE = 1e-5


LAYERS = {
    "shared tables": {},
    "a table per head": {"share_relations_across_heads": False},
    "K = 0": {"max_relative_position": 0},
    "K beyond the sentence": {"max_relative_position": T + 1},
    "keys alone": {"use_value_relations": False},
    "values alone": {"use_key_relations": False},
    "no relations": {"use_key_relations": False, "use_value_relations": False},
    "biases": {"use_bias": True},
}


def terms_by_loops(weights, inputs, source, limit, allowed):
    """Eqs. 2 to 4 of the paper for one sentence, term by term.

    Returns a dict of arrays, the fields of `AttentionParts` and the outputs.
    """

    def project(name, x):
        bias = weights.get(f"{name}/bias", 0)
        return np.einsum("td,dnh->tnh", x, weights[f"{name}/kernel"]) + bias

    def row(kind, head, r):
        table = weights.get(f"{kind}_relation_embeddings")
        if table is None:
            return 0.0
        return table[head, r] if table.ndim == 3 else table[r]

    query, key, value = (
        project(name, x)
        for name, x in (("query", inputs), ("key", source), ("value", source))
    )
    num_queries, num_keys = len(inputs), len(source)
    content, position, scores, values, relations = np.zeros(
        (5, N, num_queries, num_keys)
    )
    contexts = np.zeros((2, N, num_queries, H_V))
    by_distance = np.zeros((N, num_queries, 2 * limit + 1))
    for n in range(N):
        for i in range(num_queries):
            rows = [
                max(-limit, min(limit, j - i)) + limit for j in range(num_keys)
            ]
            for j in range(num_keys):
                content[n, i, j] = query[i, n] @ key[j, n] / H**0.5
                a_key = row("key", n, rows[j])
                position[n, i, j] = np.sum(query[i, n] * a_key) / H**0.5
            for r in range(2 * limit + 1):
                w_key = row("key", n, r)
                by_distance[n, i, r] = np.sum(query[i, n] * w_key) / H**0.5
            exponents = [
                np.exp(content[n, i, j] + position[n, i, j]) * allowed[i, j]
                for j in range(num_keys)
            ]
            for j in range(num_keys):
                scores[n, i, j] = exponents[j] / max(sum(exponents), 1e-300)
                contexts[0, n, i] += scores[n, i, j] * value[j, n]
                a_value = row("value", n, rows[j])
                contexts[1, n, i] += scores[n, i, j] * a_value
            z = contexts[:, n, i].sum(axis=0)
            for j in range(num_keys):
                weight = scores[n, i, j] / max(z @ z, 1e-300)
                values[n, i, j] = weight * (value[j, n] @ z)
                a_value = row("value", n, rows[j])
                relations[n, i, j] = weight * np.sum(a_value * z)
    return {
        "content_logits": content,
        "position_logits": position,
        "scores": scores,
        "value_context": contexts[0],
        "relation_context": contexts[1],
        "value_shares": values,
        "relation_shares": relations,
        "distance_logits": by_distance,
        "outputs": merged(contexts.sum(axis=0), weights),
    }


def merged(contexts, weights):
    """The outputs of a layer whose heads give `contexts`."""
    outputs = np.einsum("nth,nhd->td", contexts, weights["output/kernel"])
    return outputs + weights.get("output/bias", 0)


def assert_terms(outputs, parts, weights, inputs, source, limit, allowed):
    found = {**parts._asdict(), "outputs": outputs}
    if "key_relation_embeddings" not in weights:
        assert found.pop("distance_logits") is None
    for row in range(len(inputs)):
        expected = terms_by_loops(
            weights, inputs[row], source[row], limit, allowed[row]
        )
        for name, array in found.items():
            # Shares are quotients: of a short output they are large.
            np.testing.assert_allclose(
                np.asarray(array)[row],
                expected[name],
                atol=TOLERANCE,
                rtol=TOLERANCE,
                err_msg=name,
            )


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.mark.parametrize("name", LAYERS)
def test_terms_of_self_attention_are_the_papers(
    name, rng, randomize, weights_of
):
    arguments = {"max_relative_position": K, **LAYERS[name]}
    layer = RelativeSelfAttention(N, H, value_dim=H_V, **arguments)
    layer.build((None, None, D))
    randomize(layer)
    inputs = normal(rng, B, T, D)
    # A sentence of each length, and causality.
    allowed = np.tril(np.ones((B, T, T), bool))
    allowed[1, :, 5:] = False
    padding = np.ones((B, 1, T), bool)
    padding[1, :, 5:] = False
    outputs, parts = self_attention_parts(
        layer, inputs, attention_mask=padding, use_causal_mask=True
    )
    assert_terms(
        outputs,
        parts,
        weights_of(layer),
        inputs,
        inputs,
        arguments["max_relative_position"],
        allowed,
    )


def test_terms_of_cross_attention_are_all_content(rng, randomize, weights_of):
    layer = CrossAttention(N, H, value_dim=H_V, use_bias=True)
    inputs, source = normal(rng, B, T, D), normal(rng, B, S, D)
    padding = np.ones((B, S), bool)
    padding[1, 2:] = False
    layer.build(inputs.shape, source.shape)
    randomize(layer)
    expected, scores = layer(
        inputs, source, padding_mask=padding, return_attention_scores=True
    )
    outputs, parts = cross_attention_parts(layer, inputs, source, padding)
    np.testing.assert_allclose(outputs, expected, atol=TOLERANCE)
    np.testing.assert_allclose(parts.scores, scores, atol=TOLERANCE)
    assert_terms(
        outputs,
        parts,
        weights_of(layer),
        inputs,
        source,
        K,
        np.broadcast_to(padding[:, None], (B, T, S)),
    )


def test_query_that_may_attend_to_nothing_has_shares_of_zero(rng, randomize):
    layer = RelativeSelfAttention(N, H, K)
    layer.build((None, None, D))
    randomize(layer)
    mask = np.ones((B, T, T), bool)
    mask[0, 3] = False
    _, parts = self_attention_parts(layer, normal(rng, B, T, D), mask)
    for array in (parts.scores, parts.value_shares, parts.relation_shares):
        assert np.isfinite(array).all()
        assert not np.asarray(array)[0, :, 3].any()
        assert np.asarray(array)[0, :, 2].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_shares_of_a_short_output_sum_to_one_in_half_precision(dtype, rng):
    layer = RelativeSelfAttention(N, H, K, dtype=f"mixed_{dtype}")
    layer.build((None, None, D))
    # So short that their squares are zero in float16.
    for weight in (layer.value_dense.kernel, layer.value_relation_embeddings):
        weight.assign(1e-4 * rng.normal(size=weight.shape))
    inputs = keras.ops.cast(normal(rng, B, T, D), dtype)
    _, parts = self_attention_parts(layer, inputs)
    shares = keras.ops.sum(parts.value_shares + parts.relation_shares, axis=-1)
    # The output itself has been rounded to 11 or 8 bits.
    np.testing.assert_allclose(shares, np.ones((B, N, T)), atol=0.1)
