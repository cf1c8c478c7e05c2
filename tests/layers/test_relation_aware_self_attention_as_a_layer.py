"""`RelationAwareSelfAttention` as a Keras layer, and what it refuses."""

import keras
import numpy as np
import pytest

import relative_attention as ra

B, T, D, N, H, R = 2, 5, 11, 3, 4, 6
HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])


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


# === What is refused ===


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


@pytest.mark.parametrize(
    "share, return_scores",
    [(False, True), pytest.param(True, False, marks=pytest.mark.large)],
    ids=["apart", "shared"],
)
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
def test_weights_have_the_documented_names_and_shapes(share, weights_of):
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


def test_layer_built_for_both_shapes_is_built_from_its_config(
    inputs, relations
):
    layer = ra.RelationAwareSelfAttention(N, H, R)
    layer.build(inputs.shape, relations.shape)
    clone = ra.RelationAwareSelfAttention.from_config(layer.get_config())
    clone.build_from_config(layer.get_build_config())
    clone.set_weights(layer.get_weights())
    assert_same(clone(inputs, relations), layer(inputs, relations))


@pytest.mark.only_on("tensorflow", reason="it is about tf.function")
def test_one_graph_takes_any_length(rng, build_layer):
    import tensorflow as tf

    layer = build_layer(no_relation=-1)
    graph = tf.function(
        layer,
        input_signature=[
            tf.TensorSpec((None, None, D)),
            tf.TensorSpec((None, None, None), tf.int32),
        ],
    )
    for length in (3, T, 1):
        nodes = normal(rng, B, length, D)
        labels = rng.integers(-1, R, (B, length, length)).astype("int32")
        assert_same(graph(nodes, labels), layer(nodes, labels))
