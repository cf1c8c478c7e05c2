"""Masks of `RelativeSelfAttention`."""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import RelativeSelfAttention

B, T, D, N, H, K = 2, 7, 11, 3, 5, 2


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


def relative_positions():
    distance = np.arange(T) - np.arange(T)[:, None]
    return np.clip(distance, -K, K) + K


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_causal_mask_keeps_the_future_out(rng, inputs, build_layer):
    layer = build_layer()
    outputs = np.array(layer(inputs, use_causal_mask=True))
    for position in (1, 4, T - 1):
        changed = inputs.copy()
        changed[:, position:] = normal(rng, B, T - position, D)
        results = np.array(layer(changed, use_causal_mask=True))
        assert_same(results[:, :position], outputs[:, :position])
        assert (results[:, position:] != outputs[:, position:]).any()


@pytest.mark.parametrize("with_attention_mask", [False, True])
def test_keras_padding_mask_hides_keys_and_is_passed_on(
    inputs, build_layer, paper_attention, weights_of, with_attention_mask
):
    layer = build_layer()
    lengths = np.array([4, T])
    padding_mask = np.arange(T) < lengths[:, None]
    inputs = inputs * padding_mask[..., None]
    symbol = keras.Input((T, D))
    hidden = keras.layers.Masking()(symbol)
    mask = np.ones((1, T, T), bool)
    mask[0, 1, 2] = False
    arguments = {}
    if with_attention_mask:
        # A tensor more among the arguments changes how Keras names the mask.
        arguments["attention_mask"] = ops.array(mask)
    hidden = layer(hidden, **arguments)
    model = keras.Model(
        symbol, [hidden, keras.layers.GlobalAveragePooling1D()(hidden)]
    )
    outputs, means = model(inputs)
    combined = padding_mask[:, None, :] & (
        mask if with_attention_mask else True
    )
    expected, _ = paper_attention(
        weights_of(layer), inputs, relative_positions(), combined
    )
    assert_same(outputs, expected)
    expected_means = [
        rows[:length].mean(0) for rows, length in zip(expected, lengths)
    ]
    assert_same(means, expected_means)


def test_padded_token_changes_no_output(rng, inputs, build_layer):
    layer = build_layer()
    padding_mask = np.ones((B, T), bool)
    padding_mask[0, 4:] = False
    padding_mask[1, 2] = False
    changed = np.where(
        padding_mask[..., None], inputs, 100 * normal(rng, B, T, D)
    )
    results, expected = (
        np.array(layer(x, attention_mask=padding_mask[:, None, :]))
        for x in (changed, inputs)
    )
    assert_same(results[padding_mask], expected[padding_mask])


@pytest.mark.parametrize(
    "dtype",
    ["mixed_float16", pytest.param("float32", marks=pytest.mark.large)],
)
def test_fully_masked_query_gets_zeros_before_the_output_projection(
    inputs, build_layer, dtype, gradients
):
    layer = build_layer(use_bias=True, dtype=dtype)
    mask = np.ones((B, T, T), bool)
    mask[0, 3] = False
    outputs = np.array(ops.cast(layer(inputs, attention_mask=mask), "float32"))
    np.testing.assert_allclose(
        outputs[0, 3], layer.output_dense.bias, rtol=1e-3
    )
    assert np.isfinite(outputs).all()
    _, scores = layer(inputs, attention_mask=mask, return_attention_scores=True)
    assert not np.array(ops.cast(scores, "float32"))[0, :, 3].any()
    for gradient in gradients(
        lambda inputs: ops.sum(
            ops.cast(layer(inputs, attention_mask=mask), "float32")
        ),
        [inputs],
        layer.trainable_weights,
    ):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    "shape", [(1, T, T), (B, 1, T), (B, T, 1), (T, T), (T,)], ids=str
)
def test_attention_mask_broadcasts(rng, inputs, build_layer, shape):
    layer = build_layer()
    mask = rng.random(shape) < 0.6
    if shape[-1] == T:
        mask[..., 0] = True
    mask[:1] = True
    # A row or a column of the mask for each sentence, or for all of them.
    wide = np.broadcast_to(mask, (B, T, T))
    assert_same(
        layer(inputs, attention_mask=mask), layer(inputs, attention_mask=wide)
    )


@pytest.mark.parametrize("shape", [(B, T), (B, T - 1, T), (3, T, T)], ids=str)
def test_attention_mask_that_does_not_broadcast_is_refused(
    inputs, build_layer, shape
):
    layer = build_layer()
    with pytest.raises(ValueError) as error:
        layer(inputs, attention_mask=np.ones(shape, bool))
    assert (
        f"`attention_mask` must broadcast to {(B, T, T)}. Received shape: "
        f"{shape}. To hide padded keys, pass `padding_mask[:, None, :]`."
    ) in str(error.value)
