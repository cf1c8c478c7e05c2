"""What every public layer owes to Keras, and what it refuses.

One table says how to make each layer.
"""

import inspect
import itertools
import json
import typing

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention import layers
from tests.layers.paper import normal

B, T, S, D, F, N, H, K, V = 2, 5, 7, 12, 17, 3, 4, 2, 23
# Numbers of NumPy are stored as Python's: the config becomes JSON.
DROPOUT = {"dropout": np.float32(0.25), "seed": 3}
HEADS = {"num_heads": np.int64(N), "key_dim": np.array(H), **DROPOUT}


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
    "LearnedPositions": ({"max_length": 3}, 1),
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
    "SinusoidalPositions": ({"max_wavelength": np.int64(300)}, 0),
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


def make_inputs(name, rng, batch_size=B, length=T, source_length=S):
    """Arrays to call a layer with."""
    inputs = normal(rng, batch_size, length, D)
    if name == "TokenEmbedding":
        return [rng.integers(0, 3, inputs.shape[:2]).astype("int32")]
    if name in TWO_INPUTS:
        return [inputs, normal(rng, batch_size, source_length, D)]
    if name == "RelationAwareSelfAttention":
        labels = rng.integers(0, 3, (batch_size, length, length))
        return [inputs, labels.astype("int32")]
    return [inputs]


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
    "name", [name for name in LAYERS if name in ra.__all__]
)
def test_signature_names_every_argument_of_the_config(name):
    layer = make_layer(name)
    named = set(inspect.signature(type(layer)).parameters) - {"kwargs"}
    # Type checkers see the names of a `TypedDict` instead of `**kwargs`.
    types = typing.get_type_hints(type(layer).__init__, include_extras=True)
    (shared,) = typing.get_args(types["kwargs"])
    named |= set(typing.get_type_hints(shared))
    assert {"name", "dtype", "trainable"} <= named
    # Arguments of Keras' own classes may be in one of the two alone.
    of_keras = {
        argument
        for base in type(layer).__mro__
        if base.__module__.startswith("keras.")
        for argument in inspect.signature(base.__init__).parameters
    }
    assert named ^ set(layer.get_config()) <= of_keras


def assert_close(results, expected, bound=0.0):
    results, expected = map(keras.tree.flatten, (results, expected))
    for result, wanted in zip(results, expected, strict=True):
        wanted = np.array(wanted)
        assert result.shape == wanted.shape
        # Of the largest where it is over 1: the error of a sum is that of its
        # largest terms.
        largest = np.abs(wanted).max(initial=1)
        np.testing.assert_allclose(
            ops.cast(result, "float32"), wanted, rtol=0, atol=bound * largest
        )


def copies_of(model, folder):
    """The model from a file, and its clone."""
    model.save(folder / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    return keras.saving.load_model(folder / "model.keras"), clone


@EVERY_LAYER
def test_layer_is_saved_and_trained(name, rng, tmp_path):
    layer, num_weights = make_layer(name), LAYERS[name][1]
    arrays = make_inputs(name, rng)
    takes_scores = "return_attention_scores" in call_arguments(layer)
    arguments = {"return_attention_scores": True} if takes_scores else {}
    expected = layer(*arrays, **arguments)
    assert layer.supports_masking == (name != "TokenEmbedding")
    # Keras passes the shapes of two inputs by position.
    outputs = expected[0] if takes_scores else expected
    shapes = (array.shape for array in arrays)
    assert layer.compute_output_shape(*shapes) == outputs.shape
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
    for same in copies_of(model, tmp_path):
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

    layer.trainable = False
    for same in copies_of(model, tmp_path):
        assert not same.trainable_variables


QUANTIZED = [
    ("TokenEmbedding", "int8"),
    ("FeedForward", "int4"),
]
OTHERS_QUANTIZED = [
    *((name, "int8") for name in LAYERS),
    ("CrossAttention", "int4"),
    ("TokenEmbedding", "int4"),
]


# From layers with nothing to quantize, such as dropout.
@pytest.mark.filterwarnings("ignore:Layer .* a `quantize")
@pytest.mark.int8
@pytest.mark.parametrize(
    "name, mode",
    [
        *QUANTIZED,
        *(
            pytest.param(*case, marks=pytest.mark.large)
            for case in OTHERS_QUANTIZED
            if case not in QUANTIZED
        ),
    ],
)
def test_quantized_layer_is_loaded_again(name, mode, rng, tmp_path):
    arrays = make_inputs(name, rng)
    symbols = [
        keras.Input(array.shape[1:], dtype=array.dtype.name) for array in arrays
    ]
    model = keras.Model(symbols, make_layer(name)(*symbols))
    before = model(arrays)
    # Not the defaults, so that the config must be saved, too.
    model.quantize(
        config=keras.quantizers.Int8QuantizationConfig(
            activation_quantizer=None
        )
        if mode == "int8"
        else keras.quantizers.Int4QuantizationConfig(block_size=4)
    )
    expected = model(arrays)
    dtypes = [weight.dtype for weight in model.weights]
    is_changed = (np.array(before) != np.array(expected)).any()
    assert is_changed == ("int8" in dtypes)
    for same in copies_of(model, tmp_path):
        assert_close(same(arrays), expected)
        assert [weight.dtype for weight in same.weights] == dtypes


def call_arguments(layer):
    return inspect.signature(layer.call).parameters


# Processors without bfloat16 round every partial sum to its 8 bits.
@pytest.mark.parametrize(
    "dtype, bound", [("float16", 1e-2), ("bfloat16", 4e-2)]
)
@EVERY_LAYER
def test_half_precision_is_near_float32(name, rng, dtype, bound):
    layer, arrays = make_layer(name), make_inputs(name, rng)
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


@pytest.mark.only_on("tensorflow", "torch", reason="JAX rounds to float32")
def test_float64_stays_float64(rng):
    for name in LAYERS:
        layer = getattr(layers, name)(**arguments_of(name), dtype="float64")
        arrays = [
            array.astype("float64") if array.dtype == "float32" else array
            for array in make_inputs(name, rng)
        ]
        dtype = keras.backend.standardize_dtype(layer(*arrays).dtype)
        assert dtype == "float64", name
    # Nothing between is rounded: both ways give the same.
    inputs = normal(rng, B, T, D).astype("float64")
    outputs = []
    for implementation in ("auto", "transpose"):
        layer = ra.RelativeSelfAttention(
            N, H, K, implementation=implementation, dtype="float64"
        )
        layer.build(inputs.shape)
        rng = np.random.default_rng(7)
        layer.set_weights([rng.normal(size=w.shape) for w in layer.weights])
        outputs.append(ops.convert_to_numpy(layer(inputs)))
    np.testing.assert_allclose(*outputs, rtol=1e-12, atol=1e-12)


@EVERY_LAYER
def test_summary_tells_the_shape_of_a_layer_built_from_shapes(
    name, rng, monkeypatch
):
    # A table that is wider than the terminal is cut.
    monkeypatch.setenv("COLUMNS", "200")
    # A model that builds its layers from shapes, as `Transformer` does.
    model, layer, lines = keras.Model(), make_layer(name), []
    model.layer, model.built = layer, True
    layer.build(*((None, *x.shape[1:]) for x in make_inputs(name, rng)))
    model.summary(print_fn=lines.append, line_length=200)
    rows = "\n".join(lines).split("\n")
    (row,) = (row for row in rows if f"{layer.name} (" in row)
    assert f"(None, {T}, {D})" in row


# === One graph for all sizes ===

VARIANTS = {
    **{
        f"SelfAttention, {encoding}": {"position_encoding": encoding}
        for encoding in (None, "rotary", "alibi", "t5")
    },
    "RelativeSelfAttention, one head": {"num_heads": 1},
    "RelativeSelfAttention, clipped at 0": {"max_relative_position": 0},
    "RelativeSelfAttention, shared": {"share_relations_across_heads": True},
    "RelativeSelfAttention, transpose": {"implementation": "transpose"},
    "RelativeGlobalAttention, both sides": {"causal": False},
}
SELF_ATTENTION = [
    *("SelfAttention", "RelativeSelfAttention", "RelativeGlobalAttention"),
    *VARIANTS,
]
SIZES = list(itertools.product((0, 1, 2), (0, 1, 2, 5)))
ON_TENSORFLOW = pytest.mark.only_on("tensorflow", reason="about tf.function")


@pytest.fixture
def build(randomize):
    def build(name):
        kind, _, _ = name.partition(",")
        arguments = {**arguments_of(kind), **VARIANTS.get(name, {})}
        layer = getattr(layers, kind)(**arguments)
        layer(*make_inputs(kind, np.random.default_rng(7)))
        return kind, randomize(layer)

    return build


def assert_graph_is_eager(function, calls):
    """Compares one graph with eager calls on known sizes.

    Args:
        function: function of arrays.
        calls: list of lists of arrays, the same but for their sizes.
    """
    import tensorflow as tf

    def spec(array):
        shape = [None] * array.ndim
        if array.dtype == "float32":
            shape[-1] = D
        return tf.TensorSpec(shape, array.dtype)

    graph = tf.function(function, input_signature=[*map(spec, calls[0])])
    for arrays in calls:
        expected = function(*map(tf.constant, arrays))
        assert_close(graph(*arrays), expected, 3e-5)


@ON_TENSORFLOW
@pytest.mark.parametrize(
    "name",
    [
        # A block takes seconds, and its layers are here, too.
        pytest.param(name, marks=pytest.mark.large if "Block" in name else ())
        for name in LAYERS
    ]
    + [pytest.param(name, marks=pytest.mark.large) for name in VARIANTS],
)
def test_outputs_and_gradients_in_training(rng, build, name):
    import tensorflow as tf

    kind, layer = build(name)
    seeds = [v for v in layer.non_trainable_variables if "seed" in v.path]
    weights = [weight.value for weight in layer.trainable_weights]
    takes_training = "training" in call_arguments(layer)
    options = {"training": True} if takes_training else {}

    def arguments(batch_size, length):
        # No source is as long as the target.
        sizes = batch_size, length, (length + 2) % 4
        arrays = make_inputs(kind, rng, *sizes)
        shape = (batch_size, length, length)
        if kind in TWO_INPUTS:
            shape = arrays[1].shape[:2]
        elif name in SELF_ATTENTION:
            shape = (batch_size, layer.num_heads, length, length)
        elif "Attention" not in kind and "Block" not in kind:
            return arrays
        return [*arrays, rng.random(shape) < 0.7]

    def train(*tensors):
        for seed in seeds:
            seed.assign(np.full(seed.shape, 7))
        floats = [x for x in tensors if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = layer(*tensors, **options)
            loss = tf.reduce_sum(outputs**2)
        gradients = tape.gradient(
            loss, floats + weights, unconnected_gradients="zero"
        )
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    assert_graph_is_eager(train, [arguments(*sizes) for sizes in SIZES])


@ON_TENSORFLOW
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in LAYERS else pytest.mark.large)
        for name in SELF_ATTENTION
    ],
)
def test_masks_of_keras_and_of_later_keys(rng, build, name):
    _, layer = build(name)
    calls = [
        [normal(rng, *sizes, D), rng.random(sizes) < 0.7] for sizes in SIZES
    ]
    assert_graph_is_eager(
        lambda x, mask: [
            layer(x, mask=mask, use_causal_mask=True),
            layer(
                x,
                mask=mask,
                use_causal_mask=True,
                return_attention_scores=True,
            ),
        ],
        calls,
    )


# === What is refused ===

ANY_SHAPE = ("Dropout", "TokenEmbedding")


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in ANY_SHAPE])
def test_wrong_rank_or_width_is_refused_by_keras(name, rng):
    layer, arrays = make_layer(name), make_inputs(name, rng)
    wrong = arrays[0][0, 0] if name == "FeedForward" else arrays[0][0]
    for _ in range(2):  # Before it is built, and after.
        with pytest.raises(ValueError, match=f"found ndim={wrong.ndim}"):
            layer(wrong, *arrays[1:])
        layer(*arrays)
    if name != "SinusoidalPositions":
        wide = np.zeros((B, T, D + 1), "float32")
        with pytest.raises(ValueError, match=f"value {D}, but received"):
            layer(wide, *arrays[1:])
        shapes = [(None, None, None)] * len(arrays)
        with pytest.raises(ValueError, match="last axis of `inputs` must have"):
            make_layer(name).build(*shapes)


@pytest.mark.parametrize("name", ["FeedForward", "RelativeSelfAttention"])
def test_sublayer_of_a_layer_that_is_not_built_is_refused(name):
    layer = make_layer(name)
    with pytest.raises(AttributeError) as error:
        layer.output_dense.enable_lora(2)
    assert str(error.value) == (
        "`output_dense` is made when the layer is built. Call the "
        f"`{name}`, or its `build`, first."
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        layer.nothing  # noqa: B018


POSITIVE, RATE = "a positive int", "a rate in [0, 1)"
LABEL = "an int, the label of pairs without an edge, or None"


@pytest.mark.parametrize(
    "name, argument, value, allowed",
    [
        ("RelativeSelfAttention", "num_heads", 2.0, POSITIVE),
        ("RelativeSelfAttention", "key_dim", True, POSITIVE),
        ("CrossAttention", "output_shape", (17,), POSITIVE),
        (
            "RelativeSelfAttention",
            "max_relative_position",
            -4,
            "a non-negative int (tokens on either side)",
        ),
        ("RelativeSelfAttention", "dropout", "0.1", RATE),
        ("RelativeSelfAttention", "use_bias", 0, "True or False"),
        (
            "RelativeSelfAttention",
            "implementation",
            "fast",
            "one of ('auto', 'recompute', 'transpose')",
        ),
        (
            "CrossAttention",
            "implementation",
            "transpose",
            "one of ('auto', 'recompute')",
        ),
        (
            "RelationAwareSelfAttention",
            "implementation",
            "recompute",
            "one of ('auto',)",
        ),
        ("RelativeGlobalAttention", "max_relative_position", 0, POSITIVE),
        ("RelationAwareSelfAttention", "no_relation", True, LABEL),
        ("FeedForward", "intermediate_dim", 0, POSITIVE),
        ("LearnedPositions", "max_length", "9", POSITIVE),
        ("SinusoidalPositions", "max_wavelength", 0, "> 0"),
        ("TransformerEncoderBlock", "dropout", None, RATE),
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
