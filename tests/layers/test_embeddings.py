"""Embeddings of tokens, and what is added to them.

Their logits and gradients are compared with tensor2tensor's in whole models.
"""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers import LearnedPositions
from relative_attention.layers import SinusoidalPositions
from relative_attention.layers import TokenEmbedding

B, T, D, V = 2, 5, 7, 13


IDS = np.array([[3, 12, 0, 1, 0], [0, 5, 5, 2, 1]], "int32")


@pytest.fixture
def layer():
    layer = TokenEmbedding(V, D)
    layer.build((None, None))
    return layer


def test_ids_embed_to_scaled_rows_and_zero_to_zeros(layer):
    table = np.array(layer.embeddings, "float64")
    assert table.shape == (V, D)
    assert table.all()
    expected = table[IDS] * np.sqrt(D)
    expected[IDS == 0] = 0
    outputs = np.array(layer(IDS))
    np.testing.assert_allclose(outputs, expected, rtol=1e-5)
    assert not outputs[IDS == 0].any()


@pytest.mark.parametrize("token_id", [-1, 23])
def test_id_outside_the_vocabulary_is_refused(token_id):
    embedding = ra.TokenEmbedding(23, D)
    with pytest.raises(ValueError) as error:
        embedding(np.array([[4, token_id]]))
    assert (
        "Token ids must be from 0 to 22, the vocabulary of 'token_embedding"
    ) in str(error.value)
    assert f"Received: {token_id}." in str(error.value)
    for ids in (np.array([[4.5]]), keras.Input((3,))):
        with pytest.raises(ValueError, match="Token ids must be integers"):
            embedding(ids)


@pytest.mark.int8
@pytest.mark.parametrize(
    "mode",
    [
        "int4/3",
        *(
            pytest.param(m, marks=pytest.mark.large)
            for m in ("int8", "int4/-1")
        ),
    ],
)
def test_quantized_rows_are_those_of_keras(layer, mode):
    of_keras = keras.layers.Embedding(V, D)
    of_keras.build((None, None))
    of_keras.set_weights(layer.get_weights())
    mode, _, block_size = mode.partition("/")
    config = None
    if block_size:
        config = keras.quantizers.Int4QuantizationConfig(
            block_size=int(block_size)
        )
    for embedding in (layer, of_keras):
        embedding.quantize(mode, config=config)
    matrix = np.array(of_keras(np.arange(V)))
    np.testing.assert_allclose(layer.matrix(), matrix, rtol=1e-6)
    logits = layer.logits(np.eye(D, dtype="float32"))
    np.testing.assert_allclose(logits, matrix.T, rtol=1e-6)
    expected = matrix[IDS] * (IDS != 0)[..., None] * np.sqrt(D)
    np.testing.assert_allclose(layer(IDS), expected, rtol=1e-6)


@pytest.mark.only_on("tensorflow", "torch", reason="JAX rounds to float32")
def test_adapters_keep_float64(rng):
    layer = TokenEmbedding(V, D, dtype="float64")
    layer.build((None, None))
    layer.enable_lora(2)
    # Keras makes adapters in float32.
    adapters = [rng.normal(size=shape) for shape in ((V, 2), (2, D))]
    for variable, value in zip(layer.trainable_weights, adapters):
        variable.assign(value)
        value[:] = keras.ops.convert_to_numpy(variable)
    table = keras.ops.convert_to_numpy(layer._embeddings) + np.matmul(*adapters)
    expected = table[IDS] * (IDS != 0)[..., None] * np.sqrt(D)
    for result, wanted in ((layer(IDS), expected), (layer.matrix(), table)):
        result = keras.ops.convert_to_numpy(result)
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", range(10))
def test_outputs_are_tensor2tensors(golden, case):
    golden = golden("A6_timing_signal")
    info = golden.info["cases"][case]
    result = SinusoidalPositions()(
        golden[f"case{case}/x"], start_position=info["start_index"]
    )
    np.testing.assert_allclose(
        result, golden[f"case{case}/x_plus_signal"], rtol=1e-5, atol=1e-5
    )


@pytest.mark.only_on("tensorflow", "torch", reason="JAX rounds to float32")
def test_sines_keep_float64():
    start, wavelengths = 5_000, 10_000 ** np.array([0, 0.5, 1])
    angles = (start + np.arange(T))[:, None] / wavelengths
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    layer = SinusoidalPositions(dtype="float64")
    outputs = keras.ops.convert_to_numpy(
        layer(np.zeros((1, T, D)), start_position=start)
    )
    assert not outputs[0, :, 6:].any()
    # The rounding of the largest angle.
    bound = 4 * np.finfo("float64").eps * start
    np.testing.assert_allclose(outputs[0, :, :6], expected, atol=bound, rtol=0)


LENGTH = 11


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


@pytest.mark.parametrize("start", [0, 9, 17])
def test_positions_beyond_the_table_use_the_last_row(inputs, start):
    layer = LearnedPositions(LENGTH)
    layer.build(inputs.shape)
    table = np.array(layer.embeddings)
    assert table.shape == (LENGTH, D)
    rows = table[[min(start + t, LENGTH - 1) for t in range(T)]]
    np.testing.assert_allclose(
        layer(inputs, start_position=start), inputs + rows, rtol=1e-6
    )


def test_space_is_a_row_of_tensor2tensors_table_at_every_position(rng):
    layer = ra.TargetSpaceEmbedding()
    inputs = rng.normal(size=(B, T, D)).astype("float32")
    outputs = np.array(layer(inputs))
    assert [tuple(weight.shape) for weight in layer.weights] == [(D,)]
    np.testing.assert_array_equal(outputs, inputs + np.array(layer.embedding))
