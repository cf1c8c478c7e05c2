import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra

B, T, D, N, H, R = 2, 5, 11, 3, 4, 6
RELATIONS = pytest.mark.parametrize(
    "use_key_relations, use_value_relations",
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["both", "keys_only", "values_only", "neither"],
)
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
def build_layer(rng):
    """A layer with weights that are all random, biases and tables too."""

    def build(num_relations=R, **arguments):
        layer = ra.RelationAwareSelfAttention(N, H, num_relations, **arguments)
        layer.build((None, None, D))
        for weight in layer.trainable_weights:
            weight.assign(normal(rng, *weight.shape) / 2)
        return layer

    return build


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def weights_of(layer):
    """Weights by name, in float64: `query/kernel`, ..."""
    return {
        "/".join(weight.path.split("/")[1:]): np.array(weight, "float64")
        for weight in layer.trainable_weights
    }


def reference(weights, inputs, relations, no_relation=None, mask=None):
    """Eqs. 3 and 4 of the paper in loops, in float64.

    Returns outputs `(B, T, D)` and scores `(B, N, T, T)`.
    """

    def project(name, row, head):
        bias = weights.get(f"{name}/bias", np.zeros((N, 1)))
        return row @ weights[f"{name}/kernel"][:, head] + bias[head]

    def edge(kind, label, head):
        table = weights.get(f"{kind}_relation_embeddings")
        if table is None or label == no_relation:
            return 0
        return (table if table.ndim == 2 else table[head])[label]

    relations = np.broadcast_to(relations, (B, T, T))
    output_kernel = weights["output/kernel"]
    outputs = np.zeros((B, T, output_kernel.shape[-1]))
    outputs += weights.get("output/bias", 0)
    all_scores = np.zeros((B, N, T, T))
    for b, head, i in np.ndindex(B, N, T):
        query = project("query", inputs[b, i], head)
        keys, values = (
            np.array(
                [
                    project(kind, inputs[b, j], head)
                    + edge(kind, relations[b, i, j], head)
                    for j in range(T)
                ]
            )
            for kind in ("key", "value")
        )
        scores = np.exp(keys @ query / np.sqrt(len(query)))
        if mask is not None:
            scores = scores * mask[b, i]
        scores = scores / scores.sum()
        all_scores[b, head, i] = scores
        outputs[b, i] += scores @ values @ output_kernel[head]
    return outputs, all_scores


# === The equations ===


@GRAPHS
@HEADS
@RELATIONS
def test_outputs_are_those_of_the_paper(
    inputs,
    relations,
    build_layer,
    share,
    use_key_relations,
    use_value_relations,
    graph_shape,
):
    layer = build_layer(
        share_relations_across_heads=share,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
        value_dim=7,
    )
    relations = relations if len(graph_shape) == 3 else relations[0]
    outputs, scores = layer(inputs, relations, return_attention_scores=True)
    expected = reference(weights_of(layer), inputs, relations)
    assert_same(outputs, expected[0])
    assert_same(scores, expected[1])
    assert_same(layer(inputs, relations), outputs)


@HEADS
def test_outputs_are_those_of_the_paper_with_masks_and_biases(
    rng, inputs, relations, build_layer, share
):
    layer = build_layer(share_relations_across_heads=share, use_bias=True)
    mask = rng.random((B, T, T)) < 0.7
    mask[:, range(T), range(T)] = True
    outputs, scores = layer(
        inputs,
        relations,
        attention_mask=mask,
        use_causal_mask=True,
        return_attention_scores=True,
    )
    expected = reference(
        weights_of(layer),
        inputs,
        relations,
        mask=mask & np.tri(T, dtype=bool),
    )
    assert_same(outputs, expected[0])
    assert_same(scores, expected[1])


@pytest.mark.parametrize("no_relation", [-1, 2, R, 99])
@HEADS
def test_pairs_without_an_edge_have_plain_keys_and_values(
    inputs, relations, build_layer, share, no_relation
):
    layer = build_layer(
        share_relations_across_heads=share, no_relation=no_relation
    )
    relations[:, 1::2] = no_relation
    expected, _ = reference(
        weights_of(layer), inputs, relations, no_relation=no_relation
    )
    assert_same(layer(inputs, relations), expected)
    relations[:] = no_relation
    plain = build_layer(
        use_key_relations=False,
        use_value_relations=False,
        no_relation=no_relation,
    )
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        weights = getattr(layer, name).get_weights()
        getattr(plain, name).set_weights(weights)
    assert_same(layer(inputs, relations), plain(inputs, relations))


@GRAPHS
@HEADS
def test_gradients_are_finite_differences_of_the_paper(
    rng, inputs, relations, build_layer, gradients, share, graph_shape
):
    layer = build_layer(share_relations_across_heads=share, no_relation=2)
    relations = relations if len(graph_shape) == 3 else relations[0]
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
                reference(
                    {**weights, name: weights.get(name, 0) + sign * direction},
                    inputs + (sign * direction if name == "inputs" else 0),
                    relations,
                    no_relation=2,
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


@GRAPHS
@HEADS
def test_clipped_distances_make_it_relative_self_attention(
    rng, inputs, build_layer, gradients, share, graph_shape
):
    limit = 2
    layer = build_layer(
        2 * limit + 1, share_relations_across_heads=share, value_dim=7
    )
    other = ra.RelativeSelfAttention(
        N, H, limit, share_relations_across_heads=share, value_dim=7
    )
    other.build((None, None, D))
    other.set_weights(layer.get_weights())
    relations = np.broadcast_to(
        ra.clipped_relative_positions(np.arange(T), np.arange(T), limit),
        graph_shape,
    )
    for result, expected in zip(
        layer(inputs, relations, return_attention_scores=True),
        other(inputs, return_attention_scores=True),
    ):
        assert_same(result, expected)

    projection = normal(rng, B, T, D)
    results, expected = (
        gradients(
            lambda x, either=either, graph=graph: ops.sum(
                ops.multiply(
                    either(x, *graph, use_causal_mask=True), projection
                )
            ),
            [inputs],
            either.trainable_weights,
        )
        for either, graph in ((layer, [relations]), (other, []))
    )
    for result, wanted in zip(results, expected, strict=True):
        assert_same(result, wanted)


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
    inputs, relations, build_layer
):
    layer = build_layer()
    padding_mask = np.arange(T) < np.array([3, T])[:, None]
    inputs = inputs * padding_mask[..., None]
    symbols = [keras.Input((T, D)), keras.Input((T, T), dtype="int32")]
    hidden = layer(keras.layers.Masking()(symbols[0]), symbols[1])
    means = keras.layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model(symbols, [hidden, means])
    outputs, means = model([inputs, relations])
    expected, _ = reference(
        weights_of(layer),
        inputs,
        relations,
        mask=np.broadcast_to(padding_mask[:, None], (B, T, T)),
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


# === What is refused ===


@pytest.mark.parametrize(
    "shape",
    [(T,), (T, T + 1), (T + 1, T), (B + 1, T, T), (1, T, T), (B, N, T, T)],
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


def test_symbolic_relations_of_another_shape_are_refused(build_layer):
    layer = build_layer()
    symbols = [keras.Input((T, D)), keras.Input((T, 7), dtype="int32")]
    with pytest.raises(ValueError) as error:
        layer(*symbols)
    assert "Received shape: (None, 5, 7)" in str(error.value)


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


@pytest.mark.parametrize(
    "argument, value, allowed",
    [
        ("num_relations", 0, "a positive int"),
        ("num_relations", 2.0, "a positive int"),
        ("num_heads", 0, "a positive int"),
        ("key_dim", -1, "a positive int"),
        ("value_dim", 0, "a positive int"),
        ("output_shape", 0, "a positive int"),
        ("dropout", 1.0, "a rate in [0, 1)"),
        (
            "no_relation",
            0.5,
            "an int, the label of pairs without an edge, or None",
        ),
        (
            "no_relation",
            True,
            "an int, the label of pairs without an edge, or None",
        ),
    ],
)
def test_wrong_argument_is_named_with_what_is_allowed(argument, value, allowed):
    arguments = {"num_heads": N, "key_dim": H, "num_relations": R}
    with pytest.raises(ValueError) as error:
        ra.RelationAwareSelfAttention(**{**arguments, argument: value})
    assert str(error.value) == (
        f"`{argument}` must be {allowed}. Received: {argument}={value!r}."
    )


# === What every layer owes to Keras ===


@HEADS
@pytest.mark.parametrize("return_scores", [False, True])
def test_layer_behaves_as_a_keras_layer(
    inputs, relations, run_layer_test, share, return_scores
):
    layer = ra.RelationAwareSelfAttention(
        N,
        H,
        R,
        no_relation=-1,
        value_dim=7,
        share_relations_across_heads=share,
        dropout=0.25,
        output_shape=13,
        relation_initializer=keras.initializers.RandomNormal(stddev=0.5),
        relation_regularizer="l2",
        seed=3,
    )
    relations[0, 1] = -1
    run_layer_test(
        layer,
        [inputs, relations],
        num_weights=6,
        return_attention_scores=return_scores,
    )


@HEADS
def test_weights_have_the_documented_names_and_shapes(share):
    layer = ra.RelationAwareSelfAttention(
        N, H, R, value_dim=7, share_relations_across_heads=share
    )
    layer.build((None, None, D))
    heads = () if share else (N,)
    assert {
        name: weight.shape for name, weight in weights_of(layer).items()
    } == {
        "query/kernel": (D, N, H),
        "key/kernel": (D, N, H),
        "value/kernel": (D, N, 7),
        "output/kernel": (N, 7, D),
        "key_relation_embeddings": (*heads, R, H),
        "value_relation_embeddings": (*heads, R, 7),
    }


def test_layer_built_for_both_shapes_is_read_from_a_file(
    tmp_path, inputs, relations
):
    layer = ra.RelationAwareSelfAttention(N, H, R)
    layer.build(inputs.shape, relations.shape)
    symbols = [keras.Input((T, D)), keras.Input((T, T), dtype="int32")]
    model = keras.Model(symbols, layer(*symbols))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(loaded([inputs, relations]), layer(inputs, relations))


def test_one_graph_takes_any_length(rng, build_layer):
    layer = build_layer(no_relation=-1)
    symbols = [keras.Input((None, D)), keras.Input((None, None), dtype="int32")]
    model = keras.Model(symbols, layer(*symbols))
    for length in (3, T, 7, 1):
        nodes = normal(rng, B, length, D)
        labels = rng.integers(-1, R, (B, length, length)).astype("int32")
        assert_same(
            model.predict([nodes, labels], verbose=0), layer(nodes, labels)
        )


def test_dropout_is_active_only_in_training(inputs, relations, build_layer):
    layer = build_layer(dropout=0.5, seed=7)
    expected, expected_scores = reference(weights_of(layer), inputs, relations)
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
