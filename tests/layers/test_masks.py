"""What masks do, of every kind and in every attention layer.

That they hide what they hide is in `test_attention.py`.
"""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from tests.layers.paper import assert_same

B, T, S, D, N, H, K, V = 2, 7, 5, 12, 3, 4, 2, 23
# Sentences of other tokens, padded on the right and on the left.
IS_REAL = np.array([[1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]], bool)
LAYERS = {
    "transpose": functools.partial(
        ra.RelativeSelfAttention, N, H, K, implementation="transpose"
    ),
    "auto": functools.partial(ra.RelativeSelfAttention, N, H, K),
    "clipped_at_0": functools.partial(ra.RelativeSelfAttention, N, H, 0),
    "global": functools.partial(
        ra.RelativeGlobalAttention, N, H, 1, use_value_relations=True
    ),
    "global_causal": functools.partial(
        ra.RelativeGlobalAttention, N, H, 100, causal=True
    ),
    "relation_aware": functools.partial(
        ra.RelationAwareSelfAttention, N, H, 4, no_relation=-1
    ),
    "cross": functools.partial(ra.CrossAttention, N, H),
}
OF_SELF = [name for name in LAYERS if name != "cross"]


@functools.cache
def build(name, dtype="float32"):
    """A layer, and a call of it; no test changes its weights.

    `call(inputs, mask)` returns outputs and scores.
    """
    rng = np.random.default_rng(1803)
    queries = rng.normal(size=(B, S, D)).astype("float32")
    relations = rng.integers(-1, 4, size=(B, T, T)).astype("int32")
    layer = LAYERS[name](use_bias=True, dtype=dtype)
    shape = (None, None, D)
    layer.build(*([shape, shape] if name == "cross" else [shape]))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)

    def call(inputs, mask=None, returns_scores=True):
        arguments = {"return_attention_scores": returns_scores}
        if name == "cross":
            return layer(queries, inputs, padding_mask=mask, **arguments)
        if name == "relation_aware":
            arguments["relations"] = relations
        return layer(inputs, attention_mask=mask, **arguments)

    return layer, call


def padding(name, is_real=IS_REAL):
    """A padding mask as the layer takes it."""
    return is_real if name == "cross" else is_real[:, None]


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


# === Padding ===


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "dtype",
    [
        "mixed_float16",
        *(
            pytest.param(dtype, marks=pytest.mark.large)
            for dtype in ("float32", "mixed_bfloat16")
        ),
    ],
)
def test_outputs_are_zero_when_a_sentence_is_all_padding(
    inputs, gradients, name, dtype
):
    layer, call = build(name, dtype)
    is_real = IS_REAL.copy()
    is_real[0] = False
    mask = padding(name, is_real)
    outputs, scores = (
        np.array(ops.cast(x, "float32")) for x in call(inputs, mask)
    )
    assert not scores[0].any()
    # Zeros before the output projection.
    bias = np.array(ops.cast(layer.output_dense.bias, "float32"))
    np.testing.assert_allclose(
        outputs[0], np.broadcast_to(bias, outputs[0].shape), rtol=1e-2
    )

    def loss(x):
        outputs = call(x, mask, returns_scores=False)
        return ops.sum(ops.cast(outputs, "float32"))

    of_inputs, *of_weights = (
        gradient.astype("float32")
        for gradient in gradients(loss, [inputs], layer.trainable_weights)
    )
    for array in (outputs, of_inputs, *of_weights):
        assert np.isfinite(array).all()
    assert not of_inputs[0].any()
    assert of_inputs[1].any()


# === Masks as users give them ===


@pytest.mark.parametrize("name", OF_SELF)
def test_mask_may_be_integers_and_have_an_axis_of_heads(rng, inputs, name):
    _, call = build(name)

    def attend(mask):
        return np.array(call(inputs, mask, returns_scores=False))

    mask = rng.random((B, T, T)) < 0.7
    expected = attend(mask)
    assert np.abs(expected - attend(None)).max() > 1e-2
    for same in (
        mask.astype("int32"),
        mask.astype("uint8"),
        mask.astype("float32"),
        mask[:, None],
        np.repeat(mask[:, None], N, axis=1),
    ):
        assert_same(attend(same), expected)


@pytest.mark.parametrize("name", OF_SELF)
def test_wrong_mask_is_refused_with_the_way_out(inputs, name):
    _, call = build(name)
    with pytest.raises(ValueError) as error:
        call(inputs, np.triu(np.full((T, T), -1e9, "float32"), 1))
    assert (
        "`attention_mask` must be bool, or zeros and ones; True and 1 mean "
        "that a token may be attended to. Received: -1000000000.0, in float"
    ) in str(error.value)
    assert "pass `mask == 0`" in str(error.value)
    for shape in [(B, T), (B, 2, T, T)]:
        expected = (B, N, T, T) if len(shape) == 4 else (B, T, T)
        with pytest.raises(ValueError) as error:
            call(inputs, np.ones(shape, bool))
        assert (
            f"`attention_mask` must broadcast to {expected}. Received shape: "
            f"{shape}. To hide padded keys, pass `padding_mask[:, None, :]`."
        ) in str(error.value)


@pytest.mark.parametrize("name", OF_SELF)
def test_keys_and_values_by_position_are_refused(inputs, name):
    layer, _ = build(name)
    relations = ()
    if name == "relation_aware":
        relations = (np.zeros((T, T), "int32"),)
    for first in (inputs, keras.Input((T, D))):
        with pytest.raises(ValueError) as error:
            layer(first, *relations, first, first)
        message = str(error.value)
        assert "`use_causal_mask` must be True or False. Received: " in message
        assert "Keys and values are not passed here." in message


def test_wrong_mask_of_a_functional_model_is_refused_in_the_same_words():
    layer, _ = build("auto")
    with pytest.raises(ValueError) as error:
        layer(keras.Input((T, D)), attention_mask=np.ones((B, T), bool))
    assert "`attention_mask` must broadcast to (" in str(error.value)
    assert "compute_output_spec" not in str(error.value)


@pytest.mark.parametrize("name", LAYERS)
def test_mask_of_known_size_fits_inputs_of_unknown_size(rng, inputs, name):
    _, call = build(name)
    mask = rng.random((1, T, T)) < 0.7
    if name == "cross":
        mask = IS_REAL
    symbols = keras.Input((None, D), batch_size=B)
    model = keras.Model(symbols, call(symbols, mask.astype("float32")))
    for result, expected in zip(model(inputs), call(inputs, mask)):
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


def test_padding_mask_of_the_source_is_checked(inputs):
    layer, _ = build("cross")
    source = inputs[:, :S]
    with pytest.raises(ValueError, match="`padding_mask` must be bool"):
        layer(inputs, source, padding_mask=np.full((B, S), 0.5))
    for name, shape in (
        ("padding_mask", (B, 4)),
        ("encoder_outputs_mask", (1, S)),
    ):
        with pytest.raises(ValueError) as error:
            layer(inputs, source, **{name: np.ones(shape, bool)})
        assert (
            f"`{name}` must have shape {(B, S)}, True for real tokens. "
            f"Received shape: {shape}."
        ) in str(error.value)
    for shape in [(1, S, D), (B, D)]:
        with pytest.raises(ValueError) as error:
            layer(inputs, np.zeros(shape, "float32"))
        assert (
            f"`encoder_outputs` must have shape ({B}, S, {D}), a source for "
            f"each row of `inputs`. Received shape: {shape}."
        ) in str(error.value)
    block = decoder_block()
    with pytest.raises(ValueError, match="`source_padding_mask` must be bool"):
        block(inputs, inputs, source_padding_mask=np.full((B, T), -1e9))


# === The masks of Keras ===


def embed(token_ids):
    """Embeds ids; the Keras mask of the outputs hides ids 0."""

    def table(shape, dtype=None):
        return np.random.default_rng(7).normal(size=shape).astype(dtype)

    layer = keras.layers.Embedding(
        V, D, mask_zero=True, embeddings_initializer=table
    )
    return layer(token_ids)


def decoder_block(**arguments):
    return ra.TransformerDecoderBlock(
        ra.RelativeSelfAttention(N, H, K),
        ra.CrossAttention(N, H),
        ra.FeedForward(17),
        **arguments,
    )


def self_attention_with_a_mask():
    layer = ra.RelativeSelfAttention(N, H, K)
    # Another tensor among the arguments changes how Keras names its own mask.
    return lambda x, _: layer(x, attention_mask=np.ones((1, 1), bool))


@pytest.mark.parametrize("left, right", [(0, 3), (2, 0)], ids=["right", "left"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ra.CrossAttention(N, H),
        lambda: decoder_block(normalize_first=True),
        self_attention_with_a_mask,
    ],
    ids=["cross", "decoder", "self"],
)
def test_keras_mask_hides_padding_of_both_sides(rng, make, left, right):
    layer = make()
    target, source = (rng.integers(1, V, (B, length)) for length in (T, S))

    def call(*token_ids):
        return np.array(layer(*map(embed, token_ids)))

    def padded(ids):
        return np.pad(ids, ((0, 0), (left, right)))

    expected = call(target, source)
    outputs = call(target, padded(source))
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)
    outputs = call(padded(target), source)[:, left : left + T]
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)


def test_a_position_is_real_only_in_both_masks(rng):
    layer = ra.SelfAttention(N, H, "rotary")
    inputs = rng.normal(size=(B, T, 7)).astype("float32")
    one, other = (rng.integers(0, 2, (B, T)).astype(bool) for _ in range(2))
    one[:, 2] = other[:, 2] = True
    found = layer(inputs, mask=one, inputs_mask=other)
    np.testing.assert_allclose(
        found, layer(inputs, mask=one & other), rtol=0, atol=1e-6
    )
    with pytest.raises(ValueError, match="mask"):
        layer(inputs, mask=one, inputs_mask=other[:, 1:])
