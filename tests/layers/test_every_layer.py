"""What every public layer owes to Keras, and to whoever misuses it.

One table says how to make each layer. Keras' own harness runs over it, and
then what that harness leaves out: files, half precision near float32, models.
"""

import inspect
import json

import keras
import numpy as np
import pytest
from keras.src import testing

import relative_attention as ra
from relative_attention import layers

# The harness trains on a generator, which Keras cannot shuffle, and trains
# layers without weights too.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
    pytest.mark.filterwarnings("ignore:The model does not have any trainable"),
]

B, T, S, D, F, N, H, K, V = 2, 5, 7, 12, 17, 3, 4, 2, 23
DROPOUT = {"dropout": 0.25, "seed": 3}
HEADS = {"num_heads": N, "key_dim": H, **DROPOUT}


def parts(dtype, *names):
    """Layers of a block, whose dtype the harness does not change."""
    makers = {
        "self_attention": lambda: ra.RelativeSelfAttention(
            N, H, K, dtype=dtype, **DROPOUT
        ),
        "cross_attention": lambda: ra.CrossAttention(
            N, H, dtype=dtype, **DROPOUT
        ),
        "feed_forward": lambda: ra.FeedForward(F, dtype=dtype, **DROPOUT),
    }
    return {name: makers[name]() for name in names} | DROPOUT


# By name: arguments, or a function of the dtype; weights; seed generators.
LAYERS = {
    "CrossAttention": ({**HEADS, "value_dim": 7}, 4, 1),
    "Dropout": ({"rate": 0.25, "seed": 3}, 0, 1),
    "FeedForward": ({"intermediate_dim": F, **DROPOUT}, 4, 1),
    "LayerNormalization": ({"epsilon": 1e-3}, 2, 0),
    "LearnedPositions": ({"max_length": 9}, 1, 0),
    # The labels that the harness draws are 0, 1 and 2.
    "RelationAwareSelfAttention": (
        {**HEADS, "num_relations": 3, "no_relation": -1},
        6,
        1,
    ),
    "RelativeGlobalAttention": (
        {**HEADS, "max_relative_position": K, "causal": True}
        | {"use_value_relations": True, "relation_regularizer": "l2"},
        6,
        1,
    ),
    "RelativeSelfAttention": (
        {**HEADS, "max_relative_position": K, "value_dim": 13}
        | {
            "share_relations_across_heads": False,
            "bias_constraint": "unit_norm",
        },
        6,
        1,
    ),
    "SelfAttention": ({**HEADS, "position_encoding": "relative"}, 6, 1),
    "SinusoidalPositions": ({"max_wavelength": 300}, 0, 0),
    "TargetSpaceEmbedding": ({}, 1, 0),
    "TokenEmbedding": ({"vocabulary_size": V, "hidden_dim": D}, 1, 0),
    "TransformerDecoderBlock": (
        lambda dtype: (
            parts(dtype, "self_attention", "cross_attention", "feed_forward")
            | {"normalize_first": True}
        ),
        20,
        4,
    ),
    "TransformerEncoderBlock": (
        lambda dtype: parts(dtype, "self_attention", "feed_forward"),
        14,
        3,
    ),
}
EVERY_LAYER = pytest.mark.parametrize("name", LAYERS)
TWO_INPUTS = ("CrossAttention", "TransformerDecoderBlock")


def arguments_of(name, dtype="float32"):
    arguments = LAYERS[name][0]
    return arguments(dtype) if callable(arguments) else arguments


def make_layer(name, **arguments):
    return getattr(layers, name)(**arguments_of(name), **arguments)


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


@pytest.mark.parametrize(
    "dtype, trains",
    [
        ("float32", False),
        *(
            pytest.param(dtype, True, marks=pytest.mark.large)
            for dtype in ("float32", "mixed_float16", "mixed_bfloat16")
        ),
    ],
    ids=["quick", "float32", "mixed_float16", "mixed_bfloat16"],
)
@EVERY_LAYER
def test_layer_passes_kerass_harness(name, dtype, trains):
    # Training by a graph takes long, and the harness trains layers of one
    # input alone. `run_layer_test` trains every layer.
    arguments = arguments_of(name, dtype)
    shapes = input_shapes(name)
    several = len(shapes) > 1
    given = {f"{key}_shape": shape for key, (shape, _) in shapes.items()}
    dtypes = {f"{key}_shape": dtype for key, (_, dtype) in shapes.items()}
    testing.TestCase().run_layer_test(
        getattr(layers, name),
        {**arguments, "dtype": dtype},
        input_shape=given if several else given["inputs_shape"],
        input_dtype=dtypes if several else dtypes["inputs_shape"],
        expected_output_shape=(B, T, D),
        expected_output_dtype=dtype.removeprefix("mixed_"),
        expected_num_trainable_weights=LAYERS[name][1],
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=LAYERS[name][2],
        expected_num_losses=int("relation_regularizer" in arguments) * 2,
        supports_masking=name != "TokenEmbedding",
        run_training_check=trains and not several,
        run_mixed_precision_check="Block" not in name
        or dtype == "mixed_float16",
    )


@EVERY_LAYER
def test_layer_is_saved_trained_and_near_in_half_precision(
    name, inputs, run_layer_test
):
    takes_scores = (
        "return_attention_scores"
        in inspect.signature(getattr(layers, name).call).parameters
    )
    run_layer_test(
        make_layer(name),
        inputs(name),
        num_weights=LAYERS[name][1],
        **({"return_attention_scores": True} if takes_scores else {}),
    )


def make_model(name):
    """A functional model of the layer, in which it is also nested."""
    symbols = [
        keras.Input(shape[1:], dtype=dtype)
        for shape, dtype in input_shapes(name).values()
    ]
    inner = keras.Model(symbols, make_layer(name)(*symbols), name="inner")
    return keras.Model(symbols, keras.layers.ReLU()(inner(symbols)))


@EVERY_LAYER
def test_clone_and_summary_of_a_model(name, inputs):
    model, arrays = make_model(name), inputs(name)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert not set(map(id, clone.weights)) & set(map(id, model.weights))
    np.testing.assert_array_equal(clone(arrays), model(arrays))
    lines = []
    model.summary(print_fn=lines.append, line_length=200, expand_nested=True)
    assert model.get_layer("inner").layers[-1].name in "\n".join(lines)


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
    "name", [n for n in OF_TOKENS if n not in ("Dropout", "LayerNormalization")]
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: ra.RelativeSelfAttention(
            INT(N), INT(H), INT(2), value_dim=INT(7), output_shape=INT(13)
        ),
        lambda: ra.RelationAwareSelfAttention(
            N, H, INT(4), no_relation=INT(-1), dropout=np.float32(0.5)
        ),
        lambda: ra.TokenEmbedding(INT(23), INT(D)),
        lambda: ra.FeedForward(INT(17), dropout=np.float64(0.1)),
        lambda: ra.SinusoidalPositions(np.int64(10_000)),
    ],
)
def test_numbers_of_numpy_are_taken_and_stored_as_pythons(make):
    layer = make()
    config = json.loads(json.dumps(layer.get_config()))
    type(layer).from_config(config)


POSITIVE, RATE = "a positive int", "a rate in [0, 1)"
LABEL = "an int, the label of pairs without an edge, or None"


@pytest.mark.parametrize(
    "name, argument, value, allowed",
    [
        ("RelativeSelfAttention", "num_heads", 0, POSITIVE),
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
        ("CrossAttention", "dropout", "0.1", RATE),
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
        ("TokenEmbedding", "vocabulary_size", 23.0, POSITIVE),
        ("TokenEmbedding", "hidden_dim", 0, POSITIVE),
        ("LearnedPositions", "max_length", "9", POSITIVE),
        ("SinusoidalPositions", "max_wavelength", 0, "> 0"),
        ("TransformerEncoderBlock", "dropout", None, RATE),
        (
            "TransformerEncoderBlock",
            "normalize_first",
            "false",
            "True or False",
        ),
        ("TransformerEncoderBlock", "self_attention", 3, "a layer"),
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
