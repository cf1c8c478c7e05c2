"""Masks of every kind that callers have, in every attention layer."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers import FeedForward

B, T, D, N, H = 2, 7, 12, 3, 4
LAYERS = {
    "transpose": lambda: ra.RelativeSelfAttention(
        N, H, 2, implementation="transpose"
    ),
    "blocks": lambda: ra.RelativeSelfAttention(
        N, H, 2, implementation="blocks"
    ),
    "global": lambda: ra.RelativeGlobalAttention(N, H, 3),
    "relation_aware": lambda: ra.RelationAwareSelfAttention(N, H, 4),
    "encoder_block": lambda: ra.TransformerEncoderBlock(
        ra.RelativeSelfAttention(N, H, 2), FeedForward(17)
    ),
}


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


@pytest.fixture(scope="module", params=LAYERS)
def attend(request):
    """`attend(mask)`: outputs of a layer, built once, on some inputs."""
    rng = np.random.default_rng(1803)
    inputs = rng.normal(size=(B, T, D)).astype("float32")
    layer = LAYERS[request.param]()
    relations = rng.integers(0, 4, size=(T, T)).astype("int32")
    others = [relations] if request.param == "relation_aware" else []
    layer(inputs, *others)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)

    def call(mask):
        return keras.ops.convert_to_numpy(
            layer(inputs, *others, attention_mask=mask)
        )

    return call


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def may_attend(rng, *shape):
    return rng.random(shape) < 0.7


def test_zeros_and_ones_are_a_mask(rng, attend):
    mask = may_attend(rng, B, T, T)
    expected = attend(mask)
    for dtype in ("int32", "uint8"):
        assert_same(attend(mask.astype(dtype)), expected)
    assert np.abs(expected - attend(None)).max() > 1e-2


def test_mask_may_have_an_axis_of_heads(rng, attend):
    mask = may_attend(rng, B, T, T)
    expected = attend(mask)
    assert_same(attend(mask[:, None]), expected)
    assert_same(attend(np.repeat(mask[:, None], N, axis=1)), expected)
    assert_same(attend(mask[:1, None, :1]), attend(mask[0, :1]))


@pytest.mark.parametrize(
    "dtype, low", [("float32", -1e9), ("float32", 0), ("float16", -6e4)]
)
def test_mask_that_is_added_is_refused_with_the_way_out(attend, dtype, low):
    mask = np.triu(np.full((T, T), low, dtype), 1)
    with pytest.raises(ValueError) as error:
        attend(mask)
    assert (
        "`attention_mask` must be bool, or integers 0 and 1; True and 1 mean "
        "that there is something to attend to. Received: float"
    ) in str(error.value)
    assert "pass `mask == 0`" in str(error.value)


@pytest.mark.parametrize("value", [-1, 2])
def test_other_integers_are_refused(attend, value):
    mask = np.ones((B, T, T), "int32")
    mask[1, 2, 3] = value
    with pytest.raises(ValueError) as error:
        attend(mask)
    assert f"Received: {value}. Of token ids" in str(error.value)


@pytest.mark.parametrize("shape", [(B, 2, T, T), (B, N, T, T + 1)], ids=str)
def test_mask_of_other_heads_is_refused(attend, shape):
    with pytest.raises(ValueError) as error:
        attend(np.ones(shape, bool))
    assert (
        f"`attention_mask` must broadcast to {(B, N, T, T)}. Received shape: "
        f"{shape}."
    ) in str(error.value)


@pytest.mark.parametrize("implementation", ["transpose", "blocks"])
@pytest.mark.parametrize("shape", [(T, T), (B, 1, T, T), (B, N, T, T)], ids=str)
def test_masks_work_as_in_keras_where_tables_are_zero(
    rng, inputs, implementation, shape
):
    mask = may_attend(rng, *shape)
    mask[..., range(T), range(T)] = True
    ours = ra.RelativeSelfAttention(
        N, H, 2, use_bias=True, implementation=implementation
    )
    ours.build((None, None, D))
    keras_layer = keras.layers.MultiHeadAttention(N, H)
    keras_layer.build((None, None, D), (None, None, D))
    weights = [rng.normal(size=w.shape) / 2 for w in keras_layer.weights]
    keras_layer.set_weights(weights)
    for table in (ours.key_relation_embeddings, ours.value_relation_embeddings):
        table.assign(np.zeros(table.shape))
    for dense in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(ours, dense).set_weights(
            getattr(keras_layer, dense).get_weights()
        )
    assert_same(
        keras.ops.convert_to_numpy(ours(inputs, attention_mask=mask)),
        keras.ops.convert_to_numpy(
            keras_layer(inputs, inputs, attention_mask=mask)
        ),
    )


def test_inputs_in_the_place_of_the_mask_are_refused(rng):
    # With D = T their shape would do.
    inputs = rng.normal(size=(B, T, T)).astype("float32")
    layer = ra.RelativeSelfAttention(N, H, 2)
    with pytest.raises(ValueError) as error:
        layer(inputs, inputs)
    assert "`attention_mask` must be bool" in str(error.value)
    assert "not the place of keys or values" in str(error.value)
    symbol = keras.Input((T, T))
    with pytest.raises(ValueError) as error:
        layer(symbol, symbol)
    assert "`attention_mask` must be bool" in str(error.value)


def test_symbolic_mask_may_have_an_axis_of_heads(rng, inputs):
    layer = ra.RelativeSelfAttention(N, H, 2, implementation="blocks")
    symbols = [
        keras.Input((None, D)),
        keras.Input((None, None, None), dtype="bool"),
    ]
    model = keras.Model(symbols, layer(symbols[0], attention_mask=symbols[1]))
    mask = may_attend(rng, B, N, T, T)
    assert_same(
        keras.ops.convert_to_numpy(model([inputs, mask])),
        keras.ops.convert_to_numpy(layer(inputs, attention_mask=mask)),
    )


# === Padding, and the source ===


@pytest.fixture
def cross():
    return ra.CrossAttention(N, H)


def test_padding_mask_of_the_source_is_checked(rng, inputs, cross):
    source = rng.normal(size=(B, 5, D)).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    assert_same(
        keras.ops.convert_to_numpy(cross(inputs, source, padding_mask=mask)),
        keras.ops.convert_to_numpy(
            cross(inputs, source, padding_mask=mask == 1)
        ),
    )
    with pytest.raises(ValueError, match="`padding_mask` must be bool"):
        cross(inputs, source, padding_mask=mask.astype("float32"))
    for shape in [(B, 4), (1, 5), (B, 1, 5)]:
        with pytest.raises(ValueError) as error:
            cross(inputs, source, padding_mask=np.ones(shape, bool))
        assert (
            f"`padding_mask` must have shape {(B, 5)}, True for real tokens. "
            f"Received shape: {shape}."
        ) in str(error.value)


def test_source_of_other_sentences_or_width_is_refused(rng, inputs, cross):
    cross.build((None, None, D), (None, None, D))
    for shape in [(1, 5, D), (B + 1, 5, D), (B, 5, D + 1), (B, D)]:
        with pytest.raises(ValueError) as error:
            cross(inputs, np.zeros(shape, "float32"))
        assert (
            f"`encoder_outputs` must have shape ({B}, S, {D}), a source for "
            f"each row of `inputs`. Received shape: {shape}."
        ) in str(error.value)


def test_decoder_block_names_its_own_mask(inputs, cross):
    block = ra.TransformerDecoderBlock(
        ra.RelativeSelfAttention(N, H, 2), cross, FeedForward(17)
    )
    with pytest.raises(ValueError, match="`source_padding_mask` must be bool"):
        block(inputs, inputs, source_padding_mask=np.ones((B, T), "float32"))


def test_padding_mask_of_keras_is_checked(inputs):
    layer = ra.RelativeSelfAttention(N, H, 2)
    with pytest.raises(ValueError, match="`mask` must be bool"):
        layer(inputs, mask=np.ones((B, T), "float32"))
    with pytest.raises(ValueError, match="`mask` must have shape"):
        layer(inputs, mask=np.ones((1, T), bool))


# === Labels and ids ===


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relations_that_are_no_integers_are_refused(inputs, dtype):
    layer = ra.RelationAwareSelfAttention(N, H, 4)
    with pytest.raises(ValueError, match="`relations` must be integers"):
        layer(inputs, np.full((T, T), 1.7, dtype))
    with pytest.raises(ValueError, match="`relations` must be integers"):
        layer(keras.Input((T, D)), keras.Input((T, T)))


@pytest.mark.parametrize("token_id", [-1, 23])
def test_ids_outside_the_vocabulary_are_refused(token_id):
    embedding = ra.TokenEmbedding(23, D)
    with pytest.raises(ValueError) as error:
        embedding(np.array([[4, token_id]]))
    assert (
        "Token ids must be from 0 to 22, the vocabulary of 'token_embedding"
    ) in str(error.value)
    assert f"Received: {token_id}." in str(error.value)


def test_ids_that_are_no_integers_are_refused():
    embedding = ra.TokenEmbedding(23, D)
    for ids in (np.array([[4.5]]), keras.Input((3,))):
        with pytest.raises(ValueError, match="Token ids must be integers"):
            embedding(ids)


@pytest.mark.only_on(
    "tensorflow", reason="each backend compiles in a way of its own"
)
def test_negative_id_takes_no_row_in_a_graph():
    import tensorflow as tf

    embedding = ra.TokenEmbedding(23, D)
    embedding.build((None, None))
    call = tf.function(
        embedding, input_signature=[tf.TensorSpec((1, 1), tf.int32)]
    )
    try:
        row = call(tf.constant([[-1]]))
    except tf.errors.InvalidArgumentError:
        return  # As on a CPU.
    assert not np.array(row).any()
