import numpy as np
import pytest

from relative_attention.layers import SinusoidalPositions

B, T, D = 2, 5, 7


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


@pytest.mark.parametrize("hidden_dim", [2, 6, 7])
def test_encodings_are_sines_then_cosines(hidden_dim):
    half = hidden_dim // 2
    positions = np.arange(11)
    expected = np.zeros((11, hidden_dim))
    for index in range(half):
        # Wavelengths in a geometric series from 2 pi to 2 pi * 100.
        wavelength = 2 * np.pi * 100 ** (index / max(half - 1, 1))
        angles = positions * 2 * np.pi / wavelength
        expected[:, index] = np.sin(angles)
        expected[:, half + index] = np.cos(angles)
    layer = SinusoidalPositions(max_wavelength=100)
    np.testing.assert_allclose(
        layer.encode(positions, hidden_dim), expected, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        layer(np.ones((B, 11, hidden_dim), "float32")),
        np.stack([1 + expected] * B),
        rtol=1e-5,
        atol=1e-5,
    )


def test_start_position_continues_where_the_rows_before_end(rng):
    inputs = rng.normal(size=(B, T, D)).astype("float32")
    layer = SinusoidalPositions()
    expected = np.array(layer(inputs))
    for position in range(T):
        outputs = layer(
            inputs[:, position : position + 1], start_position=position
        )
        np.testing.assert_allclose(
            outputs, expected[:, position : position + 1], rtol=1e-6
        )


def test_layer_behaves_as_a_keras_layer(rng, run_layer_test):
    inputs = rng.normal(size=(B, T, D)).astype("float32")
    run_layer_test(
        SinusoidalPositions(max_wavelength=300), [inputs], num_weights=0
    )
