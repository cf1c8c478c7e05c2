"""Projections and embeddings in int8, against sums in float64."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.dense import HeadProjection
from relative_attention.layers.dense import project_to_heads

D, N, H, V = 6, 2, 5, 11
RNG = np.random.default_rng(29)
INPUTS = RNG.normal(size=(3, 4, D)).astype("float32")
CONTEXT = RNG.normal(size=(3, 4, N, H)).astype("float32")
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


def out_of_heads():
    layer = HeadProjection("btnh,nhd->btd", (None, D), bias_axes="d")
    layer.build((None, None, N, H))
    return layer


def embedding():
    layer = ra.TokenEmbedding(V, D)
    layer.build()
    return layer


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor), "float64")


def float_kernel(layer):
    """The kernel that the int8 one stands for, and half its step."""
    scale = array(layer.kernel_scale)[0]
    scale = scale.reshape((1,) * (3 - scale.ndim) + scale.shape)
    if layer.equation == "btnh,nhd->btd":
        scale = scale.reshape(1, 1, D)
    else:
        scale = scale.reshape(1, N, H)
    return array(layer._kernel) / scale, 0.5 / scale


LAYERS = pytest.mark.parametrize(
    ("make", "inputs", "num_axes"),
    [(into_heads, INPUTS, 1), (out_of_heads, CONTEXT, 2)],
    ids=["into_heads", "out_of_heads"],
)


@pytest.mark.int8
@LAYERS
def test_int8_kernel_is_the_nearest_and_its_products_are_exact(
    make, inputs, num_axes
):
    layer = make()
    layer.bias.assign(RNG.normal(size=layer.bias.shape))
    before = array(layer.kernel)
    layer.quantize(config=weights_only())
    assert layer._kernel.dtype == "int8"
    kernel, half_step = float_kernel(layer)
    # Keras adds an epsilon of 1e-7 to the largest of a column.
    assert (np.abs(kernel - before) <= half_step * (1 + 1e-4) + 1e-6).all()
    expected = np.tensordot(inputs.astype("float64"), kernel, num_axes)
    np.testing.assert_allclose(
        array(layer(inputs)), expected + array(layer.bias), atol=1e-5
    )


@pytest.mark.int8
@LAYERS
def test_int8_inputs_are_off_by_no_more_than_their_step(make, inputs, num_axes):
    layer = make()
    layer.quantize("int8")
    kernel, _ = float_kernel(layer)
    exact = inputs.astype("float64")
    axes = tuple(range(2, inputs.ndim))
    step = np.abs(exact).max(axis=axes, keepdims=True) / 127
    # Each number is at most half a step away, each token has its own step.
    bound = np.tensordot(
        np.broadcast_to(0.5 * step, exact.shape), np.abs(kernel), num_axes
    )
    error = np.abs(array(layer(inputs)) - np.tensordot(exact, kernel, num_axes))
    assert (error <= bound * (1 + 1e-4) + 1e-5).all()
    assert error.max() > 1e-5


@pytest.mark.int8
def test_projections_side_by_side_are_those_of_each_int8_layer():
    layers = [into_heads(name=name) for name in ("query", "key")]
    layers[0].quantize("int8")
    for layer, projected in zip(layers, project_to_heads(INPUTS, layers)):
        np.testing.assert_allclose(
            array(projected), array(layer(INPUTS)).transpose(0, 2, 1, 3)
        )


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
    layers = [into_heads(name=name) for name in ("query", "key", "value")]
    layers.append(embedding())
    for layer in layers:
        if is_int8:
            layer.quantize(config=weights_only())
        layer.enable_lora(2)
    sums = []
    for layer in layers[:3]:
        layer.lora_kernel_b.assign(RNG.normal(size=layer.lora_kernel_b.shape))
        plain = float_kernel(layer)[0] if is_int8 else array(layer._kernel)
        adapter = array(layer.lora_kernel_a) @ array(layer.lora_kernel_b)
        sums.append(plain + adapter)
    together = project_to_heads(INPUTS, layers[:3])
    for layer, kernel, projected in zip(layers, sums, together):
        expected = np.einsum("btd,dnh->btnh", INPUTS.astype("float64"), kernel)
        np.testing.assert_allclose(array(layer(INPUTS)), expected, atol=1e-5)
        np.testing.assert_allclose(
            array(projected), expected.transpose(0, 2, 1, 3), atol=1e-5
        )
    layer = layers[3]
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


@pytest.mark.only_on("tensorflow", reason="GradientTape")
def test_gradients_are_those_of_the_sum():
    import tensorflow as tf

    layers = [into_heads(name=name) for name in ("query", "key")]
    upstream = RNG.normal(size=(2, 3, N, 4, H)).astype("float32")
    for layer in layers:
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(RNG.normal(size=(2, H)))
    with tf.GradientTape() as tape:
        heads = project_to_heads(tf.constant(INPUTS), layers)
        loss = tf.add_n([tf.reduce_sum(u * h) for u, h in zip(upstream, heads)])
    variables = [
        v.value for x in layers for v in (x.lora_kernel_a, x.lora_kernel_b)
    ]
    gradients = [array(g) for g in tape.gradient(loss, variables)]
    expected = []
    for layer, of_heads in zip(layers, upstream.astype("float64")):
        a, b = array(layer.lora_kernel_a), array(layer.lora_kernel_b)
        # Of the loss with respect to W + A B.
        of_sum = np.einsum("btd,bnth->dnh", INPUTS.astype("float64"), of_heads)
        expected.append(of_sum @ b.T)
        expected.append(np.einsum("dnr,dnh->rh", a, of_sum))
    for gradient, formula in zip(gradients, expected):
        np.testing.assert_allclose(gradient, formula, atol=1e-4)


@pytest.mark.int8
@pytest.mark.parametrize("make", [into_heads, embedding])
def test_other_modes_and_subclasses_are_refused(make):
    layer = make()
    with pytest.raises(NotImplementedError, match='`mode` must be "int8"'):
        layer.quantize("int4")
    layer.__class__ = type("Mine", (type(layer),), {})
    with pytest.raises(NotImplementedError, match="Mine does not have"):
        layer.quantize("int8")


@pytest.mark.int8
def test_layer_of_int8_is_made_again_from_its_config():
    layer = embedding()
    layer.quantize("int8")
    again = ra.TokenEmbedding.from_config(layer.get_config())
    again.build()
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(array(again(IDS)), array(layer(IDS)))
