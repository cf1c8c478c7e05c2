"""The equations of `RelationAwareSelfAttention`, and its graphs."""

import keras
import numpy as np
import pytest
from keras import ops

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


# === The equations ===


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


@pytest.mark.parametrize("no_relation", [-1, 2, R])
@HEADS
def test_pairs_without_an_edge_have_plain_keys_and_values(
    inputs,
    relations,
    build_layer,
    weights_of,
    paper_attention,
    share,
    no_relation,
):
    layer = build_layer(
        share_relations_across_heads=share, no_relation=no_relation
    )
    relations[:, 1::2] = no_relation
    rows = np.where(relations == no_relation, -1, relations)
    expected, _ = paper_attention(weights_of(layer), inputs, rows)
    assert_same(layer(inputs, relations), expected)


@pytest.mark.parametrize(
    "share, one_graph",
    [(True, False), (False, True)],
    ids=["graphs-shared", "graph-apart"],
)
def test_gradients_are_finite_differences_of_the_paper(
    rng,
    inputs,
    relations,
    build_layer,
    weights_of,
    paper_attention,
    gradients,
    share,
    one_graph,
):
    layer = build_layer(share_relations_across_heads=share, no_relation=2)
    relations = relations[0] if one_graph else relations
    rows = np.where(relations == 2, -1, relations)
    projection = normal(rng, B, T, D)
    inputs_gradient, *results = gradients(
        lambda x: ops.sum(ops.multiply(layer(x, relations), projection)),
        [inputs],
        layer.trainable_weights,
    )
    weights = weights_of(layer)
    results = dict(zip(weights, results, strict=True))
    # The row of the label that is no relation.
    for name in ("key_relation_embeddings", "value_relation_embeddings"):
        assert not results[name][..., 2, :].any()

    def difference(name, direction, step=1e-5):
        above, below = (
            (
                paper_attention(
                    {**weights, name: weights.get(name, 0) + sign * direction},
                    inputs + (sign * direction if name == "inputs" else 0),
                    rows,
                )[0]
                * projection
            ).sum()
            for sign in (step, -step)
        )
        return (above - below) / (2 * step)

    for name, result in {"inputs": inputs_gradient, **results}.items():
        direction = rng.normal(size=result.shape)
        np.testing.assert_allclose(
            (result * direction).sum(),
            difference(name, direction),
            rtol=1e-4,
            atol=1e-4,
            err_msg=name,
        )


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


# === Properties of a graph ===


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


def test_one_label_for_all_makes_nodes_a_set(inputs, build_layer):
    layer = build_layer(num_relations=1)
    relations = np.zeros((T, T), "int32")
    order = np.array([3, 0, 4, 1, 2])
    outputs = np.array(layer(inputs, relations))
    assert_same(layer(inputs[:, order], relations), outputs[:, order])
    # The one row counts nevertheless, among the values.
    table = layer.value_relation_embeddings
    table.assign(np.array(table) + 1)
    assert np.abs(np.array(layer(inputs, relations)) - outputs).max() > 1e-2


def test_edges_have_a_direction(inputs, relations, build_layer):
    layer = build_layer()
    outputs, turned = (
        np.array(layer(inputs, graph))
        for graph in (relations, relations.swapaxes(1, 2))
    )
    assert np.abs(turned - outputs).max() > 1e-2


# === Masks ===


def test_keras_padding_mask_hides_nodes_and_is_passed_on(
    inputs, relations, build_layer, weights_of, paper_attention
):
    layer = build_layer()
    padding_mask = np.arange(T) < np.array([3, T])[:, None]
    inputs = inputs * padding_mask[..., None]
    symbols = [keras.Input((T, D)), keras.Input((T, T), dtype="int32")]
    hidden = layer(keras.layers.Masking()(symbols[0]), symbols[1])
    means = keras.layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model(symbols, [hidden, means])
    outputs, means = model([inputs, relations])
    expected, _ = paper_attention(
        weights_of(layer), inputs, relations, padding_mask[:, None]
    )
    assert_same(outputs, expected)
    assert_same(means[0], expected[0, :3].mean(0))
    assert_same(means[1], expected[1].mean(0))


def test_label_of_a_padded_node_changes_nothing(
    rng, inputs, relations, build_layer
):
    layer = build_layer(no_relation=-1)
    padding_mask = np.arange(T) < np.array([3, T])[:, None]
    is_padded = ~(padding_mask[:, None] & padding_mask[:, :, None])
    changed = np.where(is_padded, -1, relations)
    assert (changed != relations).any()
    outputs, expected = (
        np.array(layer(inputs, r, attention_mask=padding_mask[:, None]))
        for r in (changed, relations)
    )
    assert_same(outputs[padding_mask], expected[padding_mask])


# === Dropout ===


def test_dropout_is_active_only_in_training(
    inputs, relations, build_layer, weights_of, paper_attention
):
    layer = build_layer(dropout=0.5, seed=7)
    expected, expected_scores = paper_attention(
        weights_of(layer), inputs, relations
    )
    assert_same(layer(inputs, relations, training=False), expected)
    (first, scores), (second, _) = (
        map(
            np.array,
            layer(
                inputs, relations, training=True, return_attention_scores=True
            ),
        )
        for _ in range(2)
    )
    assert np.abs(first - expected).max() > 1e-2
    assert np.abs(second - first).max() > 1e-2
    # The scores are those before dropout.
    assert_same(scores, expected_scores)
