"""What every public layer owes to Keras, and what it refuses.

One table says how to make each layer.
"""

import inspect
import json

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention import layers

B, T, S, D, F, N, H, K, V = 2, 5, 7, 12, 17, 3, 4, 2, 23
DROPOUT = {"dropout": 0.25, "seed": 3}
HEADS = {"num_heads": N, "key_dim": H, **DROPOUT}


def parts(*names):
    """Layers of a block."""
    makers = {
        "self_attention": lambda: ra.RelativeSelfAttention(N, H, K, **DROPOUT),
        "cross_attention": lambda: ra.CrossAttention(N, H, **DROPOUT),
        "feed_forward": lambda: ra.FeedForward(F, **DROPOUT),
    }
    return {name: makers[name]() for name in names} | DROPOUT


# By name: arguments, or a function that makes them, and number of weights.
LAYERS = {
    "CrossAttention": ({**HEADS, "value_dim": 7}, 4),
    "Dropout": ({"rate": 0.25, "seed": 3}, 0),
    "FeedForward": ({"intermediate_dim": F, **DROPOUT}, 4),
    "LearnedPositions": ({"max_length": 9}, 1),
    # The labels that are drawn are 0, 1 and 2.
    "RelationAwareSelfAttention": (
        {**HEADS, "num_relations": 3, "no_relation": -1},
        6,
    ),
    "RelativeGlobalAttention": (
        {**HEADS, "max_relative_position": K, "causal": True}
        | {"use_value_relations": True, "relation_regularizer": "l2"},
        6,
    ),
    "RelativeSelfAttention": (
        {**HEADS, "max_relative_position": K, "value_dim": 13}
        | {
            "share_relations_across_heads": False,
            "bias_constraint": "unit_norm",
        },
        6,
    ),
    "SelfAttention": ({**HEADS, "position_encoding": "relative"}, 6),
    "SinusoidalPositions": ({"max_wavelength": 300}, 0),
    "TargetSpaceEmbedding": ({}, 1),
    "TokenEmbedding": ({"vocabulary_size": V, "hidden_dim": D}, 1),
    "TransformerDecoderBlock": (
        lambda: (
            parts("self_attention", "cross_attention", "feed_forward")
            | {"normalize_first": True}
        ),
        20,
    ),
    "TransformerEncoderBlock": (
        lambda: parts("self_attention", "feed_forward"),
        14,
    ),
}
EVERY_LAYER = pytest.mark.parametrize("name", LAYERS)
TWO_INPUTS = ("CrossAttention", "TransformerDecoderBlock")


def arguments_of(name):
    arguments = LAYERS[name][0]
    return arguments() if callable(arguments) else arguments


def make_layer(name):
    return getattr(layers, name)(**arguments_of(name))


def input_shapes(name):
    """Shapes and dtypes by the names of the inputs."""
    if name == "TokenEmbedding":
        return {"inputs": ((B, T), "int32")}
    shapes = {"inputs": ((B, T, D), "float32")}
    if name in TWO_INPUTS:
        shapes["encoder_outputs"] = ((B, S, D), "float32")
    if name == "RelationAwareSelfAttention":
        shapes["relations"] = ((B, T, T), "int32")
    return shapes


@pytest.fixture
def inputs(rng):
    """`inputs(name)`: arrays to call a layer with."""

    def make(name):
        return [
            rng.integers(0, 3, shape).astype(dtype)
            if dtype == "int32"
            else rng.normal(size=shape).astype(dtype)
            for shape, dtype in input_shapes(name).values()
        ]

    return make


def test_table_has_every_layer():
    assert set(LAYERS) == set(layers.__all__)
    public = [getattr(ra, name) for name in ra.__all__]
    assert {
        value.__name__
        for value in public
        if inspect.isclass(value)
        and issubclass(value, keras.layers.Layer)
        and not issubclass(value, keras.Model)
    } <= set(LAYERS)


def assert_close(results, expected, bound=0.0):
    results, expected = map(keras.tree.flatten, (results, expected))
    for result, wanted in zip(results, expected, strict=True):
        wanted = np.array(wanted)
        # Of the largest where it is over 1: the error of a sum is that of its
        # largest terms.
        largest = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(
            ops.cast(result, "float32"), wanted, rtol=0, atol=bound * largest
        )


@EVERY_LAYER
def test_layer_is_saved_and_trained(name, inputs, tmp_path):
    layer, arrays, num_weights = make_layer(name), inputs(name), LAYERS[name][1]
    takes_scores = "return_attention_scores" in call_arguments(layer)
    arguments = {"return_attention_scores": True} if takes_scores else {}
    expected = layer(*arrays, **arguments)
    assert layer.supports_masking == (name != "TokenEmbedding")
    paths = {weight.path for weight in layer.trainable_weights}
    assert len(paths) == len(layer.trainable_weights) == num_weights

    symbols = [
        keras.Input(array.shape[1:], dtype=array.dtype.name) for array in arrays
    ]
    symbolic = layer(*symbols, **arguments)
    for symbol, eager in zip(
        keras.tree.flatten(symbolic), keras.tree.flatten(expected), strict=True
    ):
        assert symbol.shape == (None, *eager.shape[1:])
        assert symbol.dtype == keras.backend.standardize_dtype(eager.dtype)

    config = layer.get_config()
    clone = type(layer).from_config(json.loads(json.dumps(config)))
    # Called first: the config of a layer inside tells whether it is built.
    clone(*arrays, **arguments)
    assert json.dumps(clone.get_config()) == json.dumps(config)

    model = keras.Model(symbols, symbolic)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for same in (loaded, clone):
        assert not set(map(id, same.weights)) & set(map(id, model.weights))
        assert_close(same(arrays), expected)

    if num_weights:
        model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=True)
        before = layer.get_weights()
        wanted = keras.tree.map_structure(
            lambda output: np.ones(output.shape, "float32"), expected
        )
        model.fit(arrays, wanted, batch_size=B, verbose=0)
        for old, weight in zip(before, layer.weights):
            if weight.trainable:
                assert (old != np.array(weight)).any(), weight.path


def call_arguments(layer):
    return inspect.signature(layer.call).parameters


# Processors without bfloat16 round every partial sum to its 8 bits.
@pytest.mark.parametrize(
    "dtype, bound", [("float16", 1e-2), ("bfloat16", 4e-2)]
)
@EVERY_LAYER
def test_half_precision_is_near_float32(name, inputs, dtype, bound):
    layer, arrays = make_layer(name), inputs(name)
    expected = layer(*arrays)

    def with_policy(value):
        """A config in which every dtype is the mixed policy."""
        if not isinstance(value, dict):
            return value
        mixed = f"mixed_{dtype}"
        return {
            key: mixed if key == "dtype" else with_policy(item)
            for key, item in value.items()
        }

    half = type(layer).from_config(with_policy(layer.get_config()))
    half(*arrays)
    half.set_weights(layer.get_weights())
    assert all(weight.dtype == "float32" for weight in half.trainable_weights)
    outputs = half(*arrays)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    assert_close(outputs, expected, bound)


class Subclassed(keras.Model):
    """A model that builds a layer from shapes, as `Transformer` does."""

    def __init__(self, layer, shapes):
        super().__init__()
        self.layer = layer
        layer.build(*shapes)
        self.built = True


@EVERY_LAYER
def test_summary_tells_the_shape_of_a_layer_built_from_shapes(
    name, monkeypatch
):
    # A table that is wider than the terminal is cut.
    monkeypatch.setenv("COLUMNS", "200")
    shapes = [(None, *shape[1:]) for shape, _ in input_shapes(name).values()]
    layer = make_layer(name)
    lines = []
    Subclassed(layer, shapes).summary(print_fn=lines.append, line_length=200)
    text = "\n".join(lines)
    row = next(line for line in text.split("\n") if layer.name in line)
    assert f"(None, {T}, {D})" in row


# === What is refused ===

OF_TOKENS = [name for name in LAYERS if name != "TokenEmbedding"]
ANY_WIDTH = ("Dropout", "SinusoidalPositions", "TokenEmbedding")


@pytest.mark.parametrize(
    "name", [name for name in OF_TOKENS if name != "Dropout"]
)
def test_rank_and_width_are_refused_by_keras_own_words(name, inputs):
    layer = make_layer(name)
    arrays = inputs(name)
    wrong = arrays[0][0, 0] if name == "FeedForward" else arrays[0][0]
    for _ in range(2):  # Before it is built, and after.
        with pytest.raises(ValueError) as error:
            layer(wrong, *arrays[1:])
        assert f"found ndim={wrong.ndim}" in str(error.value)
        layer(*arrays)
    if name not in ANY_WIDTH:
        wide = np.zeros((B, T, D + 1), "float32")
        with pytest.raises(ValueError) as error:
            layer(wide, *arrays[1:])
        assert f"to have value {D}, but received" in str(error.value)
        shapes = [(None, None, None)] * len(arrays)
        with pytest.raises(ValueError, match="last axis of `inputs` must have"):
            make_layer(name).build(*shapes)


INT = np.int64


def test_numbers_of_numpy_are_taken_and_stored_as_pythons():
    for layer in (
        ra.RelativeSelfAttention(INT(N), INT(H), INT(2), value_dim=INT(7)),
        ra.RelationAwareSelfAttention(N, H, INT(4), no_relation=INT(-1)),
        ra.TokenEmbedding(INT(23), INT(D)),
        ra.FeedForward(INT(17), dropout=np.float32(0.1)),
        ra.SinusoidalPositions(np.int64(10_000)),
    ):
        config = json.loads(json.dumps(layer.get_config()))
        type(layer).from_config(config)


POSITIVE, RATE = "a positive int", "a rate in [0, 1)"
LABEL = "an int, the label of pairs without an edge, or None"


@pytest.mark.parametrize(
    "name, argument, value, allowed",
    [
        ("RelativeSelfAttention", "num_heads", 2.0, POSITIVE),
        ("RelativeSelfAttention", "key_dim", True, POSITIVE),
        ("RelativeSelfAttention", "value_dim", 0, POSITIVE),
        ("CrossAttention", "output_shape", (17,), POSITIVE),
        (
            "RelativeSelfAttention",
            "max_relative_position",
            -4,
            "a non-negative int (tokens on either side)",
        ),
        ("RelativeSelfAttention", "dropout", 1.0, RATE),
        ("RelativeSelfAttention", "use_bias", "no", "True or False"),
        (
            "RelativeSelfAttention",
            "implementation",
            "fast",
            "one of ('auto', 'transpose')",
        ),
        ("RelativeGlobalAttention", "max_relative_position", 0, POSITIVE),
        ("RelativeGlobalAttention", "causal", 1, "True or False"),
        ("RelationAwareSelfAttention", "num_relations", 2.0, POSITIVE),
        ("RelationAwareSelfAttention", "no_relation", True, LABEL),
        ("FeedForward", "intermediate_dim", 0, POSITIVE),
        ("TokenEmbedding", "hidden_dim", 0, POSITIVE),
        ("LearnedPositions", "max_length", "9", POSITIVE),
        ("SinusoidalPositions", "max_wavelength", 0, "> 0"),
        ("TransformerEncoderBlock", "dropout", None, RATE),
        ("TransformerEncoderBlock", "normalize_first", 1, "True or False"),
        ("TransformerDecoderBlock", "cross_attention", None, "a layer"),
    ],
)
def test_wrong_argument_is_named_with_what_is_allowed(
    name, argument, value, allowed
):
    arguments = {**arguments_of(name), argument: value}
    with pytest.raises((ValueError, TypeError)) as error:
        getattr(layers, name)(**arguments)
    assert str(error.value) == (
        f"`{argument}` must be {allowed}. Received: {argument}={value!r}."
    )
