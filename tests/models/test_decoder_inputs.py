"""Labels behind the start token, as arrays and as tensors."""

import keras
import numpy as np
import pytest

from relative_attention.models.decoder_inputs import decoder_inputs


@pytest.mark.parametrize(
    "convert",
    [np.asarray, keras.ops.convert_to_tensor],
    ids=["array", "tensor"],
)
@pytest.mark.parametrize(
    ("labels", "inputs"),
    [
        ([[9, 7, 3, 1], [8, 1, 0, 0]], [[5, 9, 7, 3], [5, 8, 1, 0]]),
        ([[[9, 1]], [[8, 4]]], [[[5, 9]], [[5, 8]]]),
        ([[1], [2]], [[5], [5]]),
    ],
    ids=["rows", "beams", "one"],
)
def test_inputs_are_labels_behind_the_start(convert, labels, inputs):
    labels = convert(np.array(labels, np.int32))
    found = decoder_inputs(labels, start_token_id=5)
    assert isinstance(found, type(labels))
    assert keras.backend.standardize_dtype(found.dtype) == "int32"
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), inputs)


@pytest.mark.parametrize("shape", [(3, 0), (0, 4), (2, 3, 0)])
@pytest.mark.parametrize(
    "convert",
    [np.asarray, keras.ops.convert_to_tensor],
    ids=["array", "tensor"],
)
def test_no_label_has_no_input(convert, shape):
    found = decoder_inputs(convert(np.zeros(shape, np.int32)))
    assert tuple(found.shape) == shape


def test_start_is_zero_by_default():
    assert decoder_inputs(np.array([[4, 1]])).tolist() == [[0, 4]]
