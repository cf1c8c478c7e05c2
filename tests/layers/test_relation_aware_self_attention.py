"""The equations of `RelationAwareSelfAttention`, and its graphs."""

import keras
import numpy as np
import pytest

import relative_attention as ra

B, T, D, N, H, R = 2, 5, 11, 3, 4, 6


HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])


GRAPHS = pytest.mark.parametrize(
    "graph_shape", [(T, T), (B, T, T)], ids=["one_graph", "a_graph_each"]
)


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture
def relations(rng):
    return rng.integers(0, R, size=(B, T, T)).astype("int32")


@pytest.fixture
def build_layer(randomize):
    def build(num_relations=R, **arguments):
        layer = ra.RelationAwareSelfAttention(N, H, num_relations, **arguments)
        layer.build((None, None, D))
        return randomize(layer)

    return build


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_three_nodes_by_hand():
    # One head of one number: q = k = v = x; label 0 adds 1 to a key, label 1
    # adds 100 to a value, -1 adds nothing.
    layer = ra.RelationAwareSelfAttention(1, 1, 2, no_relation=-1)
    layer.build((None, None, 1))
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense):
        dense.kernel.assign([[[1.0]]])
    layer.output_dense.kernel.assign([[[1.0]]])
    layer.key_relation_embeddings.assign([[1.0], [0.0]])
    layer.value_relation_embeddings.assign([[0.0], [100.0]])
    nodes = np.array([[[1.0], [2.0], [3.0]]], "float32")
    relations = np.array([[-1, -1, -1], [-1, -1, 1], [0, -1, -1]], "int32")
    mask = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0]], bool)
    outputs = layer(nodes, relations, attention_mask=mask)
    # The first sees itself; the second itself (logit 4) and the third (6),
    # with a label on the value; the third the first (3 * 2) and the second
    # (3 * 2), with a label on the first's key.
    share = 1 / (1 + np.exp(-2))
    expected = [1, (1 - share) * 2 + share * 103, (1 + 2) / 2]
    np.testing.assert_allclose(outputs[0, :, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "is_masked, one_graph, arguments",
    [
        (False, False, {}),
        (True, True, {"use_bias": True}),
        (True, False, {"share_relations_across_heads": False, "value_dim": 7}),
        (False, True, {"share_relations_across_heads": False}),
        (False, False, {"use_value_relations": False}),
        (True, True, {"use_key_relations": False}),
        (
            False,
            True,
            {"use_key_relations": False, "use_value_relations": False},
        ),
    ],
    ids=[
        "graphs",
        "graph",
        "graphs-apart",
        "graph-apart",
        "keys_only",
        "values_only",
        "neither",
    ],
)
def test_outputs_are_those_of_the_paper(
    rng,
    inputs,
    relations,
    build_layer,
    weights_of,
    paper_attention,
    is_masked,
    one_graph,
    arguments,
):
    layer = build_layer(**arguments)
    relations = relations[0] if one_graph else relations
    mask, call = True, {}
    if is_masked:
        mask = rng.random((B, T, T)) < 0.7
        mask[:, range(T), range(T)] = True
        call = {"attention_mask": mask, "use_causal_mask": True}
        mask = np.tril(mask)
    outputs, scores = layer(
        inputs, relations, return_attention_scores=True, **call
    )
    expected, expected_scores = paper_attention(
        weights_of(layer), inputs, relations, mask
    )
    assert_same(outputs, expected)
    assert_same(scores, expected_scores)
    assert_same(layer(inputs, relations, **call), outputs)


@pytest.mark.parametrize(
    "share, one_graph",
    [(True, False), (False, True)],
    ids=["graphs-shared", "graph-apart"],
)
def test_gradients_are_finite_differences_of_the_paper(
    inputs, relations, build_layer, assert_gradients_of_paper, share, one_graph
):
    layer = build_layer(share_relations_across_heads=share, no_relation=2)
    relations = relations[0] if one_graph else relations
    results = assert_gradients_of_paper(
        lambda x: layer(x, relations),
        layer,
        inputs,
        np.where(relations == 2, -1, relations),
    )
    # The row of the label that is no relation.
    for name in ("key_relation_embeddings", "value_relation_embeddings"):
        assert not results[name][..., 2, :].any()


def test_clipped_distances_make_it_relative_self_attention(inputs, build_layer):
    distance = 2
    layer = build_layer(2 * distance + 1, value_dim=7)
    other = ra.RelativeSelfAttention(N, H, distance, value_dim=7)
    other.build((None, None, D))
    other.set_weights(layer.get_weights())
    relations = ra.clipped_relative_positions(
        np.arange(T), np.arange(T), distance
    )
    for result, expected in zip(
        layer(inputs, relations, return_attention_scores=True),
        other(inputs, return_attention_scores=True),
    ):
        assert_same(result, expected)


@GRAPHS
def test_nodes_have_no_order_but_the_graphs(
    rng, inputs, relations, build_layer, graph_shape
):
    layer = build_layer()
    relations = relations if len(graph_shape) == 3 else relations[0]
    order = np.array([3, 0, 4, 1, 2])
    expected = np.array(layer(inputs, relations))[:, order]
    permuted = relations[..., order, :][..., order]
    assert_same(layer(inputs[:, order], permuted), expected)
    # Not so where the edges stay behind.
    difference = np.array(layer(inputs[:, order], relations)) - expected
    assert np.abs(difference).max() > 1e-2


@pytest.mark.parametrize(
    "shape",
    [(T,), (T, T + 1), (T + 1, T), (1, T, T), (B, N, T, T)],
    ids=str,
)
def test_relations_of_another_shape_are_refused(inputs, build_layer, shape):
    layer = build_layer()
    with pytest.raises(ValueError) as error:
        layer(inputs, np.zeros(shape, "int32"))
    assert (
        f"`relations` must have shape {(T, T)}, the same graph for all, or "
        f"{(B, T, T)}. Received shape: {shape}."
    ) in str(error.value)


@pytest.mark.parametrize(
    "no_relation, label", [(None, R), (None, -1), (-1, -2), (2, R), (R, R + 1)]
)
def test_label_out_of_range_is_refused(
    inputs, relations, build_layer, no_relation, label
):
    layer = build_layer(no_relation=no_relation)
    relations[1, 2, 3] = label
    with pytest.raises(ValueError) as error:
        layer(inputs, relations)
    assert (
        f"`relations` must hold labels from 0 to {R - 1}, or `no_relation` "
        f"({no_relation}). Received: {label}. Raise `num_relations`, or name "
        "a `no_relation`."
    ) in str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relations_that_are_no_integers_are_refused(inputs, dtype):
    layer = ra.RelationAwareSelfAttention(N, H, 4)
    with pytest.raises(ValueError, match="`relations` must be integers"):
        layer(inputs, np.full((T, T), 1.7, dtype))
    with pytest.raises(ValueError, match="`relations` must be integers"):
        layer(keras.Input((T, D)), keras.Input((T, T)))
