"""What Keras does with models of our layers: summaries, copies, masks."""

import inspect

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention import layers
from relative_attention.positions import POSITION_ENCODINGS

B, T, S, D, F, N, H, V = 2, 5, 7, 12, 17, 3, 4, 23

# Every public layer by its name, but for models.
LAYERS = {
    name: value
    for package in (ra, layers)
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name))
    and issubclass(value, keras.layers.Layer)
    and not issubclass(value, keras.Model)
}
EVERY_LAYER = pytest.mark.parametrize("name", LAYERS)

TOKENS = keras.KerasTensor((None, T, D), "float32")
SOURCE = keras.KerasTensor((None, S, D), "float32")
# Its inputs, where they are not one float tensor `(B, T, D)`.
INPUTS = {
    "CrossAttention": [TOKENS, SOURCE],
    "RelationAwareSelfAttention": [
        TOKENS,
        keras.KerasTensor((None, T, T), "int32"),
    ],
    "TokenEmbedding": [keras.KerasTensor((None, T), "int32")],
    "TransformerDecoderBlock": [TOKENS, SOURCE],
}


def make_layer(name, **arguments):
    attention = {"num_heads": N, "key_dim": H}
    parts = {
        "self_attention": lambda: ra.RelativeSelfAttention(N, H, 2),
        "cross_attention": lambda: ra.CrossAttention(N, H),
        "feed_forward": lambda: ra.FeedForward(F),
    }
    encoder_parts = "self_attention", "feed_forward"
    defaults = {
        "CrossAttention": attention,
        "Dropout": {"rate": 0.1},
        "FeedForward": {"intermediate_dim": F},
        "LayerNormalization": {},
        "LearnedPositions": {"max_length": 9},
        "RelationAwareSelfAttention": {**attention, "num_relations": 3},
        "RelativeGlobalAttention": {**attention, "max_relative_position": 2},
        "RelativeSelfAttention": {**attention, "max_relative_position": 2},
        "SelfAttention": {**attention, "position_encoding": "relative"},
        "SinusoidalPositions": {},
        "TargetSpaceEmbedding": {},
        "TokenEmbedding": {"vocabulary_size": V, "hidden_dim": D},
        "TransformerDecoderBlock": {part: parts[part]() for part in parts},
        "TransformerEncoderBlock": {
            part: parts[part]() for part in encoder_parts
        },
    }
    return LAYERS[name](**{**defaults[name], **arguments})


def make_model(name):
    """A functional model of the layer, in which it is also nested."""
    symbols = [
        keras.Input(spec.shape[1:], dtype=spec.dtype)
        for spec in INPUTS.get(name, [TOKENS])
    ]
    inner = keras.Model(symbols, make_layer(name)(*symbols), name="inner")
    return keras.Model(symbols, keras.layers.ReLU()(inner(symbols)))


@pytest.fixture
def summary_of(monkeypatch):
    # A table that is wider than the terminal is cut.
    monkeypatch.setenv("COLUMNS", "200")

    def summarize(model, **arguments):
        lines = []
        model.summary(print_fn=lines.append, line_length=200, **arguments)
        return "\n".join(lines)

    return summarize


class Subclassed(keras.Model):
    """A model that builds a layer from shapes, as `Transformer` does."""

    def __init__(self, layer, shapes):
        super().__init__()
        self.layer = layer
        layer.build(*shapes)
        self.built = True


# === Summaries and pictures ===


@EVERY_LAYER
def test_summary_tells_the_shape_of_a_layer_built_from_shapes(name, summary_of):
    shapes = [spec.shape for spec in INPUTS.get(name, [TOKENS])]
    layer = make_layer(name)
    model = Subclassed(layer, shapes)
    row = next(x for x in summary_of(model).split("\n") if layer.name in x)
    assert f"(None, {T}, {D})" in row
    assert summary_of(model, expand_nested=True)


def test_labels_are_not_needed_to_build_or_to_tell_the_shape(summary_of):
    layer = make_layer("RelationAwareSelfAttention")
    text = summary_of(Subclassed(layer, [TOKENS.shape]))
    assert f"(None, {T}, {D})" in text


@EVERY_LAYER
def test_summary_of_a_functional_model(name, summary_of):
    model = make_model(name)
    assert "inner" in summary_of(model)
    nested = model.get_layer("inner").layers[-1].name
    assert nested in summary_of(model, expand_nested=True)


@pytest.mark.parametrize("encoding", POSITION_ENCODINGS, ids=str)
def test_summary_of_a_transformer(encoding, summary_of):
    model = ra.Transformer.from_preset(
        "transformer_tiny", vocabulary_size=V, position_encoding=encoding
    )
    for expand_nested in (False, True):
        text = summary_of(model, expand_nested=expand_nested)
        assert f"{model.count_params():,}" in text


@EVERY_LAYER
def test_picture_of_a_model(name):
    # Graphviz, which `plot_model` also needs, draws what this writes.
    pytest.importorskip("pydot")
    model = make_model(name)
    dot = keras.utils.model_to_dot(model, show_shapes=True, expand_nested=True)
    assert LAYERS[name].__name__ in dot.to_string()


# === Copies ===


@EVERY_LAYER
def test_clone_has_the_same_outputs(rng, name):
    model = make_model(name)
    inputs = [
        rng.integers(0, 3, (B, *spec.shape[1:])).astype(spec.dtype)
        for spec in INPUTS.get(name, [TOKENS])
    ]
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert not set(map(id, clone.weights)) & set(map(id, model.weights))
    np.testing.assert_array_equal(clone(inputs), model(inputs))


# === Keras masks ===


def embed(token_ids):
    """Embeds ids; the Keras mask of the outputs hides ids 0."""
    layer = keras.layers.Embedding(
        V, D, mask_zero=True, embeddings_initializer=table
    )
    return layer(token_ids)


def table(shape, dtype=None):
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


def padded(ids, left, right):
    return np.pad(ids, ((0, 0), (left, right)))


def cut(outputs, left, right):
    outputs = np.array(outputs)
    return outputs[:, left : outputs.shape[1] - right]


PADDING = pytest.mark.parametrize(
    "left, right", [(0, 3), (2, 0)], ids=["right", "left"]
)
TWO_SIDES = {
    "cross_attention": ("CrossAttention", {}),
    "decoder_pre": ("TransformerDecoderBlock", {"normalize_first": True}),
    "decoder_post": ("TransformerDecoderBlock", {"normalize_first": False}),
}


@PADDING
@pytest.mark.parametrize("case", TWO_SIDES)
def test_keras_mask_hides_padding_of_both_sides(
    rng, randomize, case, left, right
):
    name, arguments = TWO_SIDES[case]
    layer = make_layer(name, **arguments)
    target, source = (rng.integers(1, V, (B, length)) for length in (T, S))
    layer.build((None, None, D), (None, None, D))
    randomize(layer)
    expected = layer(embed(target), embed(source))
    outputs = layer(embed(target), embed(padded(source, left, right)))
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)
    outputs = layer(embed(padded(target, left, right)), embed(source))
    np.testing.assert_allclose(
        cut(outputs, left, right), expected, rtol=0, atol=1e-5
    )


@PADDING
@pytest.mark.parametrize(
    "name",
    [
        "RelativeSelfAttention",
        "RelativeGlobalAttention",
        "RelationAwareSelfAttention",
        "TransformerEncoderBlock",
    ],
)
def test_keras_mask_holds_beside_another_tensor(
    rng, randomize, name, left, right
):
    layer = make_layer(name)
    layer.build((None, None, D))
    randomize(layer)
    ids = rng.integers(1, V, (B, T))
    labels = rng.integers(0, 3, (T, T))

    def attend(ids, labels):
        if name == "RelationAwareSelfAttention":
            return layer(embed(ids), labels)
        # A mask that hides nothing.
        return layer(embed(ids), attention_mask=np.ones((1, 1), bool))

    outputs = attend(
        padded(ids, left, right), np.pad(labels, [(left, right)] * 2)
    )
    np.testing.assert_allclose(
        cut(outputs, left, right), attend(ids, labels), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("explicit", [False, True])
def test_masks_are_merged_as_in_multi_head_attention(rng, randomize, explicit):
    layer = make_layer("CrossAttention", use_bias=True)
    reference = keras.layers.MultiHeadAttention(N, H)
    layer.build((None, None, D), (None, None, D))
    reference.build((None, None, D), (None, None, D))
    randomize(layer)
    for part in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(reference, part).set_weights(getattr(layer, part).get_weights())
    target, source = (
        embed(padded(rng.integers(1, V, (B, length)), 1, 2))
        for length in (T, S)
    )
    # Hides a token that is real, and shows one that is padding.
    given = np.arange(S + 3) != 4
    given = np.broadcast_to(given, (B, S + 3)) if explicit else None
    outputs = layer(target, source, padding_mask=given)
    expected = reference(
        # It takes its inputs' masks off.
        *(keras.ops.copy(x) for x in (target, source)),
        query_mask=target._keras_mask,
        value_mask=source._keras_mask,
        attention_mask=None if given is None else given[:, None],
    )
    np.testing.assert_allclose(
        cut(outputs, 1, 2), cut(expected, 1, 2), rtol=1e-5, atol=1e-5
    )
    changed = layer(target, keras.ops.copy(source))
    assert np.abs(cut(outputs, 1, 2) - cut(changed, 1, 2)).max() > 1e-2


def test_keras_mask_reaches_a_functional_model_and_its_outputs(rng):
    symbols = [keras.Input((None,), dtype="int32") for _ in range(2)]
    layer = make_layer("TransformerDecoderBlock")
    outputs = layer(*map(embed, symbols))
    # Only the real tokens are counted, where the mask is passed on.
    model = keras.Model(symbols, keras.layers.GlobalAveragePooling1D()(outputs))
    target, source = (rng.integers(1, V, (B, length)) for length in (T, S))
    np.testing.assert_allclose(
        model.predict([padded(target, 1, 2), padded(source, 1, 2)], verbose=0),
        model.predict([target, source], verbose=0),
        rtol=0,
        atol=1e-5,
    )


def test_wrong_keras_mask_is_named():
    layer = make_layer("CrossAttention")
    with pytest.raises(ValueError) as error:
        layer(
            np.zeros((B, T, D)),
            np.zeros((B, S, D)),
            encoder_outputs_mask=np.ones((B, T), bool),
        )
    assert (
        f"`encoder_outputs_mask` must have shape {(B, S)}, True for real "
        f"tokens. Received shape: {(B, T)}."
    ) in str(error.value)
