import keras
import numpy as np
import pytest

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


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(D,), (B, D), (B, T, D)], ids=str)
def test_logits_are_products_with_the_same_rows(rng, layer, shape, transposed):
    hidden = rng.normal(size=shape).astype("float32")
    matrix = layer.transposed_matrix() if transposed else None
    np.testing.assert_allclose(
        layer.logits(keras.ops.array(hidden), matrix),
        hidden @ np.array(layer.embeddings, "float64").T,
        rtol=1e-5,
        atol=1e-5,
    )


def test_initial_values_are_normal_of_deviation_one_over_root_width():
    layer = TokenEmbedding(1009, 101)
    layer.build((None, None))
    values = np.array(layer.embeddings)
    # Five standard errors of the deviation and of the mean.
    np.testing.assert_allclose(
        values.std() * 101**0.5, 1, rtol=5 / (2 * values.size) ** 0.5
    )
    assert abs(values.mean()) * 101**0.5 < 5 / values.size**0.5
    # Not truncated at two deviations.
    assert np.abs(values).max() * 101**0.5 > 3


def test_both_uses_train_the_one_matrix(layer, gradients, rng):
    upstream = rng.normal(size=(B, T, V)).astype("float32")
    (gradient,) = gradients(
        lambda: keras.ops.sum(
            keras.ops.multiply(layer.logits(layer(IDS)), upstream)
        ),
        variables=[layer.embeddings],
    )
    table = np.array(layer.embeddings, "float64")
    real = (IDS != 0)[..., None]
    rows = table[IDS] * np.sqrt(D) * real
    expected = np.einsum("btv,btd->vd", upstream, rows)
    for b, t in np.ndindex(B, T):
        expected[IDS[b, t]] += upstream[b, t] @ table * np.sqrt(D) * real[b, t]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_logits_in_half_precision_are_near(rng, layer, transposed):
    half = TokenEmbedding(V, D, dtype="mixed_bfloat16")
    half.build((None, None))
    half.set_weights(layer.get_weights())
    hidden = rng.normal(size=(B, T, D)).astype("float32")
    matrix = half.transposed_matrix() if transposed else None
    logits = half.logits(keras.ops.cast(hidden, "bfloat16"), matrix)
    assert keras.backend.standardize_dtype(logits.dtype) == "bfloat16"
    np.testing.assert_allclose(
        keras.ops.cast(logits, "float32"),
        layer.logits(keras.ops.array(hidden)),
        rtol=1e-2,
        atol=2e-2,  # Products of seven numbers that are rounded to 0.4 %.
    )


def test_layer_behaves_as_a_keras_layer(run_layer_test):
    run_layer_test(TokenEmbedding(V, D), [IDS], num_weights=1)
