"""The definition of `RelativeGlobalAttention`, and what follows from it."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra

B, T, D, N, H, M = 2, 7, 11, 3, 4, 3
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


def rows(reach):
    """Rows of the tables by query and key; -1 for distances without one."""
    distance = np.arange(T) - np.arange(T)[:, None]
    return np.where(np.abs(distance) < reach, distance + reach - 1, -1)


def past_rows(reach):
    """As `rows`, for tables without rows for the future."""
    return np.tril(rows(reach))


# === tensor2tensor's numbers ===


# Half of them with a causal mask; tables shared or not, values with relations
# or without; relations beyond the table, and a table beyond the sentence.
CASES = [
    *range(10),
    *(11, *range(16, 20), 23),
    *range(24, 34),
    *(35, 38, *range(40, 44)),
]


@pytest.mark.parametrize(
    "case",
    [
        # Each way once, the lengths and reaches in turns; the rest are large.
        case
        if case in (0, 8, 9, 18, 23, 28, 33, 38, 43)
        else pytest.param(case, marks=pytest.mark.large)
        for case in CASES
    ],
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


def test_two_tokens_by_hand():
    # One head of one number: q = k = v = x. Only the token itself is under
    # distance 1, and adds 1 to its key and 100 to its value.
    layer = ra.RelativeGlobalAttention(1, 1, 1, use_value_relations=True)
    layer.build((None, None, 1))
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense):
        dense.kernel.assign([[[1.0]]])
    layer.output_dense.kernel.assign([[[1.0]]])
    layer.key_relation_embeddings.assign([[[1.0]]])
    layer.value_relation_embeddings.assign([[[100.0]]])
    outputs = layer(np.array([[[1.0], [2.0]]], "float32"))
    # Logits 1 * (1 + 1) and 1 * 2; 2 * 1 and 2 * (2 + 1).
    share = 1 / (1 + np.exp(-4))
    expected = [(101 + 2) / 2, (1 - share) * 1 + share * 102]
    np.testing.assert_allclose(outputs[0, :, 0], expected, rtol=1e-6)


# Tables far shorter than the sentence, shorter, as long, and longer.
@pytest.mark.parametrize(
    "reach, causal, arguments",
    [
        (1, False, {"value_dim": 5}),
        (1, True, {"share_relations_across_heads": True}),
        (M, False, {"share_relations_across_heads": True, "use_bias": True}),
        (M, True, {"value_dim": 5, "use_bias": True}),
        (T, False, {}),
        (T + 4, True, {"value_dim": 5}),
        (T + 4, False, {"share_relations_across_heads": True}),
        (M, True, {"use_value_relations": False}),
        (M, False, {"use_key_relations": False}),
        (M, True, {"use_key_relations": False, "use_value_relations": False}),
    ],
    ids=[
        "one",
        "one-causal",
        "few",
        "few-causal",
        "all",
        "more-causal",
        "more",
        "keys_only",
        "values_only",
        "neither",
    ],
)
def test_outputs_are_those_of_the_definition(
    rng,
    inputs,
    build_layer,
    weights_of,
    paper_attention,
    reach,
    causal,
    arguments,
):
    layer = build_layer(
        reach, causal=causal, **{"use_value_relations": True, **arguments}
    )
    mask = rng.random((B, T, T)) < 0.7
    mask[:, range(T), range(T)] = True
    for call in ({}, {"attention_mask": mask}):
        seen = call.get("attention_mask", np.ones((T, T), bool))
        expected, expected_scores = paper_attention(
            weights_of(layer),
            inputs,
            past_rows(reach) if causal else rows(reach),
            np.tril(seen) if causal else seen,
        )
        outputs, scores = layer(inputs, return_attention_scores=True, **call)
        assert_same(outputs, expected)
        assert_same(scores, expected_scores)
    assert_same(layer(inputs, **call), outputs)


def test_causal_mask_of_a_call_is_that_of_a_causal_layer(inputs, build_layer):
    layer = build_layer(use_value_relations=True)
    expected = layer(inputs, attention_mask=np.tri(T, dtype=bool)[None])
    assert_same(layer(inputs, use_causal_mask=True), expected)


@pytest.mark.parametrize(
    "reach, causal",
    [(1, False), (M, False), (M, True), (T + 4, True)],
    ids=["one", "few", "few-causal", "more-causal"],
)
def test_gradients_are_finite_differences_of_the_definition(
    rng,
    inputs,
    build_layer,
    weights_of,
    paper_attention,
    gradients,
    causal,
    reach,
):
    layer = build_layer(reach, causal=causal, use_value_relations=True)
    projection = normal(rng, B, T, D)
    inputs_gradient, *results = gradients(
        lambda x: ops.sum(ops.multiply(layer(x), projection)),
        [inputs],
        layer.trainable_weights,
    )
    weights = weights_of(layer)
    mask = np.tri(T, dtype=bool) if causal else True

    def difference(name, direction, step=1e-5):
        above, below = (
            (
                paper_attention(
                    {**weights, name: weights.get(name, 0) + sign * direction},
                    inputs + (sign * direction if name == "inputs" else 0),
                    past_rows(reach) if causal else rows(reach),
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


@pytest.mark.parametrize(
    "reach, causal, share",
    [(T, False, True), (T, True, False), (T + 4, True, True)],
    ids=["full", "causal", "longer"],
)
def test_with_all_tokens_in_reach_it_is_relative_self_attention(
    inputs, build_layer, reach, causal, share
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
    for position in (1, 4, T - 1):
        changed = inputs.copy()
        changed[:, position:] = normal(rng, B, T - position, D)
        results = np.array(layer(changed))
        assert_same(results[:, :position], outputs[:, :position])
        assert (results[:, position:] != outputs[:, position:]).any()


@CAUSAL
def test_keras_padding_mask_hides_keys_and_is_passed_on(
    inputs, build_layer, weights_of, paper_attention, causal
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
    expected, _ = paper_attention(
        weights_of(layer),
        inputs,
        past_rows(M) if causal else rows(M),
        np.tril(mask) if causal else mask,
    )
    assert_same(outputs, expected)
    assert_same(means[0], expected[0, :4].mean(0))
    assert_same(means[1], expected[1].mean(0))


def test_attention_mask_that_does_not_broadcast_is_refused(inputs, build_layer):
    with pytest.raises(ValueError) as error:
        build_layer()(inputs, attention_mask=np.ones((B, T), bool))
    assert f"`attention_mask` must broadcast to {(B, T, T)}" in str(error.value)
    assert f"Received shape: {(B, T)}." in str(error.value)


# === Dropout ===


def test_dropout_is_active_only_in_training(
    inputs, build_layer, weights_of, paper_attention
):
    layer = build_layer(dropout=0.5, seed=7, use_value_relations=True)
    expected, expected_scores = paper_attention(
        weights_of(layer), inputs, rows(M)
    )
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
