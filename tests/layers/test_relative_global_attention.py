import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra

B, T, D, N, H, M = 2, 7, 11, 3, 4, 3
HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
CAUSAL = pytest.mark.parametrize(
    "causal", [False, True], ids=["full", "causal"]
)
# Tables far shorter than the sentence, as long, and longer.
REACHES = pytest.mark.parametrize("reach", [1, M, T, T + 4])


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture
def build_layer(rng):
    """A layer with weights that are all random, biases and tables too."""

    def build(max_relative_position=M, **arguments):
        layer = ra.RelativeGlobalAttention(
            N, H, max_relative_position, **arguments
        )
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


def reference(weights, inputs, reach, mask=None):
    """Attention with an embedding for each distance under `reach`, in loops.

    Returns outputs `(B, T, D)` and scores `(B, N, T, T)`, in float64.
    """

    def project(name, row, head):
        bias = weights.get(f"{name}/bias", np.zeros((N, 1)))
        return row @ weights[f"{name}/kernel"][:, head] + bias[head]

    def edge(kind, distance, head):
        table = weights.get(f"{kind}_relation_embeddings")
        if table is None or abs(distance) >= reach:
            return 0
        table = table if table.ndim == 2 else table[head]
        row = distance + reach - 1
        # A causal table has no rows for the future, which is masked.
        return table[row] if row < len(table) else np.nan * table[0]

    outputs = np.zeros(inputs.shape) + weights.get("output/bias", 0)
    all_scores = np.zeros((B, N, T, T))
    for b, head, i in np.ndindex(B, N, T):
        query = project("query", inputs[b, i], head)
        allowed = range(T) if mask is None else np.flatnonzero(mask[b, i])
        keys, values = (
            np.array(
                [
                    project(kind, inputs[b, j], head) + edge(kind, j - i, head)
                    for j in allowed
                ]
            )
            for kind in ("key", "value")
        )
        scores = np.exp(keys @ query / np.sqrt(len(query)))
        scores = scores / scores.sum()
        all_scores[b, head, i, allowed] = scores
        outputs[b, i] += scores @ values @ weights["output/kernel"][head]
    return outputs, all_scores


# === tensor2tensor's numbers ===


# Half of them with a causal mask; tables shared or not, values with relations
# or without; relations beyond the table, and a table beyond the sentence.
@pytest.mark.parametrize(
    "case", [*range(12), *range(16, 20), *range(24, 36), *range(40, 44)]
)
def test_outputs_and_scores_are_tensor2tensors(golden, case):
    info, data = golden("A5_relative_v2").case(case)
    batch_size, num_heads, length, dim = data["q"].shape
    width = num_heads * dim
    layer = ra.RelativeGlobalAttention(
        num_heads,
        dim,
        info["max_relative_position"],
        causal=info["masked"],
        use_value_relations=info["add_relative_to_values"],
        share_relations_across_heads=info["heads_share_relative_embedding"],
        output_shape=width,
    )
    # Inputs are queries, keys and values side by side, and the kernels pick.
    inputs = np.concatenate(
        [
            data[name].swapaxes(1, 2).reshape(batch_size, length, width)
            for name in "qkv"
        ],
        axis=-1,
    )
    layer.build(inputs.shape)
    pick = np.eye(3 * width).reshape(3 * width, 3, num_heads, dim)
    # tensor2tensor's queries are scaled, the layer scales its own.
    layer.query_dense.kernel.assign(pick[:, 0] * dim**0.5)
    layer.key_dense.kernel.assign(pick[:, 1])
    layer.value_dense.kernel.assign(pick[:, 2])
    layer.output_dense.kernel.assign(
        np.eye(width).reshape(num_heads, dim, width)
    )
    layer.key_relation_embeddings.assign(data["key_relative_embeddings"])
    if info["add_relative_to_values"]:
        layer.value_relation_embeddings.assign(
            data["value_relative_embeddings"]
        )
    mask = None if info["masked"] else data["bias"][:, 0] > -1
    outputs, scores = layer(
        inputs, attention_mask=mask, return_attention_scores=True
    )
    expected = data["output"].swapaxes(1, 2).reshape(outputs.shape)
    assert_same(outputs, expected)
    assert_same(scores, data["weights"])


# === The definition ===


@REACHES
@CAUSAL
@HEADS
def test_outputs_are_those_of_the_definition(
    inputs, build_layer, share, causal, reach
):
    layer = build_layer(
        reach,
        causal=causal,
        share_relations_across_heads=share,
        use_value_relations=True,
        value_dim=5,
    )
    outputs, scores = layer(inputs, return_attention_scores=True)
    mask = np.broadcast_to(np.tri(T), (B, T, T)) if causal else None
    expected = reference(weights_of(layer), inputs, reach, mask)
    assert_same(outputs, expected[0])
    assert_same(scores, expected[1])
    assert_same(layer(inputs), outputs)


@pytest.mark.parametrize(
    "use_key_relations, use_value_relations",
    [(True, False), (False, True), (False, False)],
    ids=["keys_only", "values_only", "neither"],
)
@CAUSAL
def test_outputs_are_those_of_the_definition_with_masks_and_biases(
    rng, inputs, build_layer, causal, use_key_relations, use_value_relations
):
    layer = build_layer(
        causal=causal,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
        use_bias=True,
    )
    mask = rng.random((B, T, T)) < 0.7
    mask[:, range(T), range(T)] = True
    for use_causal_mask in (False, True):
        outputs, scores = layer(
            inputs,
            attention_mask=mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=True,
        )
        seen = np.tril(mask) if causal or use_causal_mask else mask
        expected = reference(weights_of(layer), inputs, M, seen)
        assert_same(outputs, expected[0])
        assert_same(scores, expected[1])


@REACHES
@CAUSAL
def test_gradients_are_finite_differences_of_the_definition(
    rng, inputs, build_layer, gradients, causal, reach
):
    layer = build_layer(reach, causal=causal, use_value_relations=True)
    projection = normal(rng, B, T, D)
    inputs_gradient, *results = gradients(
        lambda x: ops.sum(ops.multiply(layer(x), projection)),
        [inputs],
        layer.trainable_weights,
    )
    weights = weights_of(layer)
    mask = np.broadcast_to(np.tri(T), (B, T, T)) if causal else None

    def difference(name, direction, step=1e-5):
        above, below = (
            (
                reference(
                    {**weights, name: weights.get(name, 0) + sign * direction},
                    inputs + (sign * direction if name == "inputs" else 0),
                    reach,
                    mask,
                )[0]
                * projection
            ).sum()
            for sign in (step, -step)
        )
        return (above - below) / (2 * step)

    results = dict(zip(weights, results, strict=True))
    for name, result in {"inputs": inputs_gradient, **results}.items():
        direction = rng.normal(size=result.shape)
        np.testing.assert_allclose(
            (result * direction).sum(),
            difference(name, direction),
            rtol=1e-4,
            atol=1e-4,
            err_msg=name,
        )


# === Beside the layer that clips ===


@pytest.mark.parametrize("reach", [T, T + 4])
@CAUSAL
@HEADS
def test_with_all_tokens_in_reach_it_is_relative_self_attention(
    inputs, build_layer, share, causal, reach
):
    layer = build_layer(
        reach,
        causal=causal,
        share_relations_across_heads=share,
        use_value_relations=True,
    )
    other = ra.RelativeSelfAttention(
        N, H, reach - 1, share_relations_across_heads=share
    )
    other.build((None, None, D))
    copy_weights(layer, other)
    results, expected = (
        either(inputs, use_causal_mask=causal, return_attention_scores=True)
        for either in (layer, other)
    )
    for result, wanted in zip(results, expected):
        assert_same(result, wanted)


@CAUSAL
def test_tokens_out_of_reach_share_no_embedding(inputs, build_layer, causal):
    layer = build_layer(causal=causal, use_value_relations=True)
    other = ra.RelativeSelfAttention(
        N, H, M - 1, share_relations_across_heads=False
    )
    other.build((None, None, D))
    copy_weights(layer, other)
    outputs, clipped = (
        np.array(either(inputs, use_causal_mask=causal))
        for either in (layer, other)
    )
    # The first tokens see none that is farther.
    if causal:
        assert_same(outputs[:, :M], clipped[:, :M])
    assert np.abs(outputs[:, M:] - clipped[:, M:]).max() > 1e-2


def copy_weights(layer, other):
    """To a layer with rows for the future, be they used or not."""
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        weights = getattr(layer, name).get_weights()
        getattr(other, name).set_weights(weights)
    for name in ("key_relation_embeddings", "value_relation_embeddings"):
        table = np.array(getattr(layer, name))
        rows = np.array(getattr(other, name))
        rows[..., : table.shape[-2], :] = table
        getattr(other, name).assign(rows)


# === Masks ===


def test_causal_layer_keeps_the_future_out(rng, inputs, build_layer):
    layer = build_layer(causal=True, use_value_relations=True)
    outputs = np.array(layer(inputs))
    for position in range(1, T):
        changed = inputs.copy()
        changed[:, position:] = normal(rng, B, T - position, D)
        results = np.array(layer(changed))
        assert_same(results[:, :position], outputs[:, :position])
        assert (results[:, position:] != outputs[:, position:]).any()


@CAUSAL
def test_keras_padding_mask_hides_keys_and_is_passed_on(
    inputs, build_layer, causal
):
    layer = build_layer(causal=causal)
    padding_mask = np.arange(T) < np.array([4, T])[:, None]
    inputs = inputs * padding_mask[..., None]
    symbol = keras.Input((T, D))
    hidden = layer(keras.layers.Masking()(symbol))
    model = keras.Model(
        symbol, [hidden, keras.layers.GlobalAveragePooling1D()(hidden)]
    )
    outputs, means = model(inputs)
    mask = np.broadcast_to(padding_mask[:, None], (B, T, T))
    expected, _ = reference(
        weights_of(layer), inputs, M, np.tril(mask) if causal else mask
    )
    assert_same(outputs, expected)
    assert_same(means[0], expected[0, :4].mean(0))
    assert_same(means[1], expected[1].mean(0))


def test_attention_mask_that_does_not_broadcast_is_refused(inputs, build_layer):
    with pytest.raises(ValueError) as error:
        build_layer()(inputs, attention_mask=np.ones((B, T), bool))
    assert f"`attention_mask` must broadcast to {(B, T, T)}" in str(error.value)
    assert f"Received shape: {(B, T)}." in str(error.value)


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
def test_weights_have_the_documented_names_and_shapes(share, causal):
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


@HEADS
@CAUSAL
@pytest.mark.parametrize("return_scores", [False, True])
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


@CAUSAL
def test_one_graph_takes_any_length(rng, build_layer, causal):
    layer = build_layer(causal=causal, use_value_relations=True)
    symbol = keras.Input((None, D))
    model = keras.Model(symbol, layer(symbol))
    for length in (M, T, M + 1, 1):
        rows = normal(rng, B, length, D)
        assert_same(model.predict(rows, verbose=0), layer(rows))


def test_dropout_is_active_only_in_training(inputs, build_layer):
    layer = build_layer(dropout=0.5, seed=7, use_value_relations=True)
    expected, expected_scores = reference(weights_of(layer), inputs, M)
    assert_same(layer(inputs, training=False), expected)
    (first, scores), (second, _) = (
        map(
            np.array,
            layer(inputs, training=True, return_attention_scores=True),
        )
        for _ in range(2)
    )
    assert np.abs(first - expected).max() > 1e-2
    assert np.abs(second - first).max() > 1e-2
    # The scores are those before dropout.
    assert_same(scores, expected_scores)
