"""Projections and feed-forward: values, gradients, int8 and adapters."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers import Dropout
from relative_attention.layers import FeedForward
from relative_attention.layers.dense import HeadProjection
from tests.layers.paper import assert_same
from tests.layers.paper import normal

B, T, D, F, N, H, V = 2, 5, 7, 13, 3, 11, 17


EQUATIONS = pytest.mark.parametrize(
    "equation, output_shape, bias_axes, input_shape",
    [
        ("btd,dnh->btnh", (None, N, H), "nh", (B, T, D)),
        ("btnh,nhd->btd", (None, D), "d", (B, T, N, H)),
    ],
    ids=["into_heads", "out_of_heads"],
)


@EQUATIONS
@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
def test_layer_is_einsum_dense(
    rng, gradients, equation, output_shape, bias_axes, input_shape, use_bias
):
    inputs = normal(rng, *input_shape)
    layers = [
        cls(
            equation,
            output_shape,
            bias_axes=bias_axes if use_bias else None,
        )
        for cls in (HeadProjection, keras.layers.EinsumDense)
    ]
    for layer in layers:
        layer.build((None, *input_shape[1:]))
    weights = [normal(rng, *weight.shape) for weight in layers[0].weights]
    assert len(weights) == 1 + use_bias
    for layer in layers:
        layer.set_weights(weights)
    outputs, expected = (np.array(layer(inputs)) for layer in layers)
    assert_same(outputs, expected)

    upstream = ops.array(normal(rng, *expected.shape))
    results, wanted = (
        gradients(
            lambda inputs, layer=layer: ops.sum(layer(inputs) * upstream),
            [inputs],
            layer.trainable_weights,
        )
        for layer in layers
    )
    assert len(results) == 2 + use_bias
    for result, want in zip(results, wanted, strict=True):
        assert_same(result, want)


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


def build_layer(rng, **arguments):
    layer = FeedForward(F, **arguments)
    layer.build((None, None, D))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def test_outputs_are_two_products_with_a_relu_between(rng, inputs):
    layer = build_layer(rng)
    kernel_in, bias_in, kernel_out, bias_out = (
        np.array(weight, "float64") for weight in layer.weights
    )
    hidden = inputs @ kernel_in + bias_in
    assert (hidden < 0).any()
    assert_same(layer(inputs), np.maximum(hidden, 0) @ kernel_out + bias_out)


def test_dropout_falls_on_the_intermediate_units(rng, inputs):
    layer = build_layer(rng, dropout=0.5, seed=7)
    kernel_in, bias_in, kernel_out, bias_out = map(np.array, layer.weights)
    hidden = np.maximum(inputs @ kernel_in + bias_in, 0)
    factors = Dropout(0.5, seed=7).draw_factors((B * T, F), "float32")
    factors = np.array(factors).reshape(B, T, F)
    assert set(np.unique(factors)) == {0, 2}
    assert_same(
        layer(inputs, training=True),
        (hidden * factors) @ kernel_out + bias_out,
        1e-4,
    )
    np.testing.assert_array_equal(layer(inputs, training=False), layer(inputs))


RNG = np.random.default_rng(29)


INPUTS = RNG.normal(size=(3, 4, D)).astype("float32")


IDS = np.array([[3, 10, 1, 0], [7, 7, 2, 1]])


# Not every Keras that the other tests run with has it.
INT8 = pytest.param(True, marks=pytest.mark.int8)


def weights_only():
    return keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)


@pytest.fixture(autouse=True)
def no_collection(monkeypatch):
    # Keras collects garbage: seconds, after hundreds of other tests.
    monkeypatch.setattr("gc.collect", lambda: 0)


def into_heads(**arguments):
    layer = HeadProjection(
        "btd,dnh->btnh", (None, N, H), bias_axes="nh", **arguments
    )
    layer.build((None, None, D))
    return layer


def embedding():
    layer = ra.TokenEmbedding(V, D)
    layer.build()
    return layer


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor), "float64")


def float_kernel(layer):
    """The kernel that the int8 one stands for."""
    return array(layer._kernel) / array(layer.kernel_scale).reshape(1, N, H)


@pytest.mark.int8
def test_int8_rows_and_logits_are_of_one_matrix():
    layer = embedding()
    before = array(layer.matrix())
    layer.quantize("int8")
    assert layer.embeddings.dtype == "int8"
    matrix = array(layer.embeddings) / array(layer.embeddings_scale)[:, None]
    half_step = 0.5 / array(layer.embeddings_scale)[:, None]
    assert (np.abs(matrix - before) <= half_step * (1 + 1e-4) + 1e-6).all()
    np.testing.assert_allclose(array(layer.matrix()), matrix, atol=1e-6)
    rows = matrix[IDS] * (IDS != 0)[..., None] * D**0.5
    np.testing.assert_allclose(array(layer(IDS)), rows, atol=1e-5)
    for transposed_matrix in (None, layer.transposed_matrix()):
        np.testing.assert_allclose(
            array(layer.logits(INPUTS, transposed_matrix)),
            INPUTS.astype("float64") @ matrix.T,
            atol=1e-5,
        )


@pytest.mark.parametrize("is_int8", [False, INT8], ids=["float", "int8"])
def test_adapted_layers_are_those_of_the_sum(is_int8):
    projection, layer = into_heads(), embedding()
    for adapted in (projection, layer):
        if is_int8:
            adapted.quantize(config=weights_only())
        adapted.enable_lora(2)
    projection.lora_kernel_b.assign(
        RNG.normal(size=projection.lora_kernel_b.shape)
    )
    kernel = array(projection._kernel)
    if is_int8:
        kernel = float_kernel(projection)
    kernel += array(projection.lora_kernel_a) @ array(projection.lora_kernel_b)
    np.testing.assert_allclose(
        array(projection(INPUTS)),
        np.einsum("btd,dnh->btnh", INPUTS.astype("float64"), kernel),
        atol=1e-5,
    )
    layer.lora_embeddings_b.assign(RNG.normal(size=(2, D)))
    matrix = array(layer._embeddings)
    if is_int8:
        matrix /= array(layer.embeddings_scale)[:, None]
    matrix += array(layer.lora_embeddings_a) @ array(layer.lora_embeddings_b)
    rows = matrix[IDS] * (IDS != 0)[..., None] * D**0.5
    np.testing.assert_allclose(array(layer(IDS)), rows, atol=1e-5)
    np.testing.assert_allclose(
        array(layer.logits(INPUTS)),
        INPUTS.astype("float64") @ matrix.T,
        atol=1e-5,
    )


@pytest.mark.int8
@pytest.mark.parametrize("make", [into_heads, embedding])
def test_other_modes_are_refused(make):
    layer = make()
    with pytest.raises(NotImplementedError, match='`mode` must be "int8"'):
        layer.quantize("int4")
