"""`RelativeGlobalAttention` as a Keras layer: arguments, weights, graphs."""

import numpy as np
import pytest

import relative_attention as ra

B, T, D, N, H, M = 2, 7, 11, 3, 4, 3
HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
CAUSAL = pytest.mark.parametrize(
    "causal", [False, True], ids=["full", "causal"]
)


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture
def build_layer(randomize):
    def build(max_relative_position=M, **arguments):
        layer = ra.RelativeGlobalAttention(
            N, H, max_relative_position, **arguments
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
        ("key_dim", 0, "a positive int"),
        ("key_dim", "4", "a positive int"),
        ("value_dim", -1, "a positive int"),
        ("output_shape", 1.5, "a positive int"),
        ("max_relative_position", 0, "a positive int"),
        ("max_relative_position", True, "a positive int"),
        ("dropout", 1.0, "a rate in [0, 1)"),
    ],
)
def test_wrong_argument_is_named_with_what_is_allowed(argument, value, allowed):
    arguments = {"num_heads": N, "key_dim": H, "max_relative_position": M}
    with pytest.raises(ValueError) as error:
        ra.RelativeGlobalAttention(**{**arguments, argument: value})
    assert str(error.value) == (
        f"`{argument}` must be {allowed}. Received: {argument}={value!r}."
    )


@CAUSAL
@HEADS
def test_weights_have_the_documented_names_and_shapes(
    weights_of, share, causal
):
    layer = ra.RelativeGlobalAttention(
        N,
        H,
        M,
        causal=causal,
        value_dim=5,
        use_value_relations=True,
        share_relations_across_heads=share,
    )
    layer.build((None, None, D))
    rows = (*(() if share else (N,)), M if causal else 2 * M - 1)
    assert {
        name: weight.shape for name, weight in weights_of(layer).items()
    } == {
        "query/kernel": (D, N, H),
        "key/kernel": (D, N, H),
        "value/kernel": (D, N, 5),
        "output/kernel": (N, 5, D),
        "key_relation_embeddings": (*rows, H),
        "value_relation_embeddings": (*rows, 5),
    }


def test_defaults_are_tensor2tensors():
    layer = ra.RelativeGlobalAttention(5, 64, 101)
    layer.build((None, None, D))
    assert layer.value_relation_embeddings is None
    table = np.array(layer.key_relation_embeddings)
    assert table.shape == (5, 201, 64)
    # Normal, standard deviation 1/8, within five standard errors.
    tolerance = 5 / np.sqrt(table.size)
    np.testing.assert_allclose(table.std() * 8, 1, atol=tolerance)
    np.testing.assert_allclose(table.mean() * 8, 0, atol=tolerance)
    assert (table[0] != table[1]).all()


# === What every layer owes to Keras ===


@pytest.mark.parametrize(
    "share, causal, return_scores",
    [
        (True, True, True),
        pytest.param(False, False, False, marks=pytest.mark.large),
    ],
    ids=["shared-causal", "apart"],
)
def test_layer_behaves_as_a_keras_layer(
    inputs, run_layer_test, share, causal, return_scores
):
    layer = ra.RelativeGlobalAttention(
        N,
        H,
        M,
        causal=causal,
        value_dim=5,
        use_value_relations=True,
        share_relations_across_heads=share,
        dropout=0.25,
        output_shape=13,
        seed=3,
    )
    run_layer_test(
        layer,
        [inputs],
        num_weights=6,
        return_attention_scores=return_scores,
    )


@pytest.mark.only_on("tensorflow", reason="it is about tf.function")
@CAUSAL
def test_one_graph_takes_any_length(rng, build_layer, causal):
    import tensorflow as tf

    layer = build_layer(causal=causal, use_value_relations=True)
    graph = tf.function(layer, input_signature=[tf.TensorSpec((None, None, D))])
    for length in (M, T, M + 1, 1, 0):
        inputs = normal(rng, B, length, D)
        assert_same(graph(inputs), layer(inputs))
