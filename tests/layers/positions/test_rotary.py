"""Rotary positions against the paper's equations in float64."""

import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from tests.layers.paper import assert_same
from tests.layers.paper import attention
from tests.layers.paper import weights_of

B, T, D, N, H, H_V = 2, 6, 7, 3, 8, 5


def paper_rotation(position, size, base=10000):
    """The matrix R of one position (eq. 15), of pairs `2i`, `2i + 1`."""
    matrix = np.zeros((size, size))
    for i in range(size // 2):
        angle = position * base ** (-2 * i / size)
        cos, sin = np.cos(angle), np.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, -sin], [sin, cos]]
    return matrix


def in_pairs(x):
    """Features in the order of the paper: `0, H/2, 1, H/2 + 1, ...`."""
    size = x.shape[-1]
    order = np.arange(size).reshape(2, size // 2).T.ravel()
    return x[..., order]


def rotated(x, positions, max_wavelength=10000):
    rotary = ra.positions.Rotary(max_wavelength)
    result = rotary.rotate(ops.convert_to_tensor(x), positions)
    return ops.convert_to_numpy(result)


@pytest.mark.parametrize("base", [10000, 37.5])
def test_rotated_pairs_are_those_of_the_paper(rng, base):
    x = rng.normal(size=(B, N, T, H)).astype("float32")
    positions = np.array([0, 1, 2, 5, 40, 300], "int32")
    result = rotated(x, positions, base)
    for t, position in enumerate(positions):
        expected = in_pairs(x[:, :, t]) @ paper_rotation(position, H, base).T
        np.testing.assert_allclose(
            in_pairs(result[:, :, t]), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(
    "dtype, bound",
    [
        ("float32", 1e-4),
        pytest.param(
            *("float64", 1e-13),
            marks=pytest.mark.only_on(
                "tensorflow", "torch", reason="JAX has no float64 by default"
            ),
        ),
    ],
)
def test_layer_is_the_attention_of_the_paper(rng, randomize, dtype, bound):
    layer = ra.SelfAttention(N, H, "rotary", value_dim=H_V, dtype=dtype)
    inputs = rng.normal(size=(B, T, D))
    rotations = [paper_rotation(t, H) for t in range(T)]
    expected = attention(
        weights_of(randomize(layer, D)),
        inputs,
        # Eq. 16: q_m = R_m W_q x_m, k_n = R_n W_k x_n
        turn=lambda x: np.einsum("tgh,bnth->bntg", rotations, in_pairs(x)),
    )
    assert_same(layer(inputs.astype(dtype)), expected["outputs"], bound)


def test_rotation_is_that_of_keras_hub(rng):
    hub = pytest.importorskip("keras_hub")
    x = rng.normal(size=(B, N, T, H)).astype("float32")
    for start in (0, 100):
        result = rotated(x, np.arange(start, start + T, dtype="int32"), 500)
        expected = hub.layers.RotaryEmbedding(500, sequence_axis=2)(
            ops.convert_to_tensor(x), start_index=start
        )
        expected = ops.convert_to_numpy(expected)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_wavelength_is_saved():
    layer = ra.SelfAttention(N, H, ra.positions.Rotary(max_wavelength=123))
    loaded = ra.SelfAttention.from_config(layer.get_config())
    assert loaded.position_encoding.max_wavelength == 123


def test_odd_heads_and_wrong_wavelengths_are_refused():
    with pytest.raises(ValueError, match="`max_wavelength` must be > 0"):
        ra.positions.Rotary("10000")
    layer = ra.SelfAttention(N, 5, position_encoding="rotary")
    with pytest.raises(ValueError) as error:
        layer.build((None, None, D))
    assert str(error.value) == (
        "`key_dim` must be even with rotary positions, which rotate pairs of "
        "features. Received: key_dim=5."
    )
