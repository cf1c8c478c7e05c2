"""`RelativeSelfAttention` as a Keras layer: arguments, weights, graphs."""

import itertools

import keras
import numpy as np
import pytest

from relative_attention.layers import RelativeSelfAttention

B, T, D, N, H, K = 2, 7, 11, 3, 5, 2
HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture(params=["transpose", "blocks"])
def build_layer(request, randomize):
    def build(**arguments):
        layer = RelativeSelfAttention(
            N, H, K, implementation=request.param, **arguments
        )
        layer.build((None, None, D))
        return randomize(layer)

    return build


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


# === The constructor and the weights ===


@pytest.mark.parametrize(
    "argument, value, allowed",
    [
        ("num_heads", 0, "a positive int"),
        ("num_heads", 2.0, "a positive int"),
        ("key_dim", -1, "a positive int"),
        ("key_dim", True, "a positive int"),
        ("value_dim", 0, "a positive int"),
        ("output_shape", 0, "a positive int"),
        ("output_shape", (17,), "a positive int"),
        (
            "max_relative_position",
            -4,
            "a non-negative int (tokens on either side)",
        ),
        (
            "max_relative_position",
            1.5,
            "a non-negative int (tokens on either side)",
        ),
        ("dropout", 1.0, "a rate in [0, 1)"),
        ("dropout", -0.1, "a rate in [0, 1)"),
        ("implementation", "fast", "one of ('auto', 'transpose')"),
    ],
)
def test_wrong_argument_is_named_with_what_is_allowed(argument, value, allowed):
    arguments = {"num_heads": N, "key_dim": H, "max_relative_position": K}
    with pytest.raises(ValueError) as error:
        RelativeSelfAttention(**{**arguments, argument: value})
    assert str(error.value) == (
        f"`{argument}` must be {allowed}. Received: {argument}={value!r}."
    )


@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
@HEADS
def test_weights_have_the_documented_names_and_shapes(share, use_bias):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        value_dim=13,
        share_relations_across_heads=share,
        use_bias=use_bias,
        name="attention",
    )
    layer.build((None, None, D))
    heads = () if share else (N,)
    expected = {
        "attention/query/kernel": (D, N, H),
        "attention/key/kernel": (D, N, H),
        "attention/value/kernel": (D, N, 13),
        "attention/output/kernel": (N, 13, D),
        "attention/key_relation_embeddings": (*heads, 2 * K + 1, H),
        "attention/value_relation_embeddings": (*heads, 2 * K + 1, 13),
    }
    if use_bias:
        expected |= {
            "attention/query/bias": (N, H),
            "attention/key/bias": (N, H),
            "attention/value/bias": (N, 13),
            "attention/output/bias": (D,),
        }
    weights = {w.path: tuple(w.shape) for w in layer.trainable_weights}
    # Keras puts the layer's own name before each path once.
    assert {
        path[path.index("attention") :]: shape
        for path, shape in weights.items()
    } == expected
    assert tuple(layer.query_dense.kernel.shape) == (D, N, H)
    assert tuple(layer.output_dense.kernel.shape) == (N, 13, D)


@pytest.mark.parametrize(
    "use_key_relations, use_value_relations",
    [(True, False), (False, True), (False, False)],
    ids=["keys_only", "values_only", "neither"],
)
def test_tables_exist_only_where_they_are_used(
    use_key_relations, use_value_relations
):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
    )
    layer.build((None, None, D))
    assert (layer.key_relation_embeddings is not None) == use_key_relations
    assert (layer.value_relation_embeddings is not None) == use_value_relations
    assert len(layer.weights) == 4 + use_key_relations + use_value_relations


@HEADS
def test_initial_values_have_the_spread_of_glorot_matrices(share):
    keras.utils.set_random_seed(3)
    heads, dim, width = 7, 31, 211
    layer = RelativeSelfAttention(
        heads, dim, 29, share_relations_across_heads=share
    )
    layer.build((None, None, width))
    kernel_fan = width + heads * dim
    table_fan = 2 * 29 + 1 + dim
    tables = []
    for weight, fan in (
        (layer.query_dense.kernel, kernel_fan),
        (layer.key_dense.kernel, kernel_fan),
        (layer.value_dense.kernel, kernel_fan),
        (layer.output_dense.kernel, kernel_fan),
        (layer.key_relation_embeddings, table_fan),
        (layer.value_relation_embeddings, table_fan),
    ):
        values = np.array(weight)
        tables.append(values)
        limit = np.sqrt(6 / fan)
        assert np.abs(values).max() <= limit
        # Five standard errors of the deviation and of the mean of a uniform
        # distribution.
        np.testing.assert_allclose(
            values.std(), limit / np.sqrt(3), rtol=5 * 0.45 / values.size**0.5
        )
        np.testing.assert_allclose(
            values.mean(), 0, atol=5 * limit / (3 * values.size) ** 0.5
        )
    for first, second in itertools.combinations(tables, 2):
        if first.shape == second.shape:
            assert (first != second).any()
    if not share:
        assert (tables[-1][0] != tables[-1][1]).any()


@HEADS
def test_seeded_initializer_draws_each_head_and_layer_alike(share):
    def table():
        layer = RelativeSelfAttention(
            N,
            H,
            K,
            share_relations_across_heads=share,
            relation_initializer=keras.initializers.GlorotUniform(seed=5),
        )
        layer.build((None, None, D))
        return np.array(layer.key_relation_embeddings)

    np.testing.assert_array_equal(table(), table())
    if not share:
        assert (table()[0] != table()[1]).any()


@pytest.mark.parametrize("kind", ["kernel", "bias", "relation"])
def test_regularizer_and_constraint_reach_their_weights(inputs, kind):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        use_bias=True,
        bias_initializer="ones",
        **{f"{kind}_regularizer": "l2", f"{kind}_constraint": "non_neg"},
    )
    layer(inputs)
    weights = [
        w for w in layer.trainable_weights if kind in w.path.split("/")[-1]
    ]
    assert len(weights) == (2 if kind == "relation" else 4)
    expected = sum(0.01 * (np.array(w, "float64") ** 2).sum() for w in weights)
    np.testing.assert_allclose(sum(layer.losses), expected, rtol=1e-5)
    for weight in layer.trainable_weights:
        assert (weight.constraint is not None) == any(
            weight is w for w in weights
        )


# === What every layer owes to Keras ===


@pytest.mark.parametrize(
    "share, return_scores",
    [(False, True), pytest.param(True, False, marks=pytest.mark.large)],
    ids=["apart", "shared"],
)
def test_layer_behaves_as_a_keras_layer(
    inputs, run_layer_test, share, return_scores
):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        value_dim=13,
        share_relations_across_heads=share,
        dropout=0.25,
        implementation="blocks",
        seed=3,
        relation_initializer=keras.initializers.RandomNormal(stddev=0.5),
        relation_regularizer="l2",
        relation_constraint="max_norm",
        kernel_regularizer="l1",
    )
    run_layer_test(
        layer,
        [inputs],
        num_weights=6,
        return_attention_scores=return_scores,
    )


def test_outputs_may_have_another_width(inputs):
    layer = RelativeSelfAttention(N, H, K, output_shape=17)
    assert layer(inputs).shape == (B, T, 17)
    assert layer(keras.Input((T, D))).shape == (None, T, 17)
    assert layer.compute_output_shape((None, None, D)) == (None, None, 17)
    assert layer.get_config()["output_shape"] == 17
    clone = RelativeSelfAttention.from_config(layer.get_config())
    assert clone(inputs).shape == (B, T, 17)


def test_symbolic_attention_mask_is_taken(inputs, build_layer):
    layer = build_layer()
    symbols = [keras.Input((T, D)), keras.Input((T, T), dtype="bool")]
    model = keras.Model(symbols, layer(symbols[0], attention_mask=symbols[1]))
    mask = np.broadcast_to(np.tri(T, dtype=bool), (B, T, T))
    assert_same(model([inputs, mask]), layer(inputs, use_causal_mask=True))


@pytest.mark.only_on("tensorflow", reason="it is about tf.function")
def test_layer_takes_any_length_in_one_graph(inputs, build_layer):
    import tensorflow as tf

    layer = build_layer()
    graph = tf.function(
        lambda x: layer(x, use_causal_mask=True),
        input_signature=[tf.TensorSpec((None, None, D))],
    )
    for length in (1, 3, T):
        part = inputs[:, :length]
        assert_same(graph(part), layer(part, use_causal_mask=True))


@pytest.mark.parametrize("implementation", ["transpose", "blocks"])
def test_optimizer_that_takes_no_sparse_updates_works(rng, implementation):
    model = keras.Sequential(
        [
            keras.Input((T, D)),
            RelativeSelfAttention(N, H, K, implementation=implementation),
        ]
    )
    model.compile(keras.optimizers.Adafactor(0.1), "mse", run_eagerly=True)
    before = [np.array(weight) for weight in model.trainable_weights]
    model.fit(
        normal(rng, B, T, D), normal(rng, B, T, D), batch_size=B, verbose=0
    )
    for weight, old in zip(model.trainable_weights, before):
        assert np.abs(np.array(weight) - old).max() > 0
