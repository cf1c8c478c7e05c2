import numpy as np
import pytest

from relative_attention.layers import LearnedPositions

B, T, D, LENGTH = 2, 5, 7, 11


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


@pytest.mark.parametrize("start", [0, 3, 9, 17])
def test_rows_are_those_of_the_positions_or_the_last(inputs, start):
    layer = LearnedPositions(LENGTH)
    layer.build(inputs.shape)
    table = np.array(layer.embeddings)
    assert table.shape == (LENGTH, D)
    rows = table[[min(start + t, LENGTH - 1) for t in range(T)]]
    np.testing.assert_allclose(
        layer(inputs, start_position=start), inputs + rows, rtol=1e-6
    )


def test_layer_behaves_as_a_keras_layer(inputs, run_layer_test):
    run_layer_test(LearnedPositions(LENGTH), [inputs], num_weights=1)
