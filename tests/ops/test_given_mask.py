import keras
import numpy as np
import pytest

from relative_attention.ops.given_mask import check_padding_mask
from relative_attention.ops.given_mask import given_mask
from relative_attention.ops.given_mask import same_size


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8"])
def test_mask_becomes_bool(dtype):
    mask = given_mask("mask", np.array([[1, 0]], dtype))
    assert keras.backend.standardize_dtype(mask.dtype) == "bool"
    np.testing.assert_array_equal(mask, [[True, False]])


def test_additive_mask_is_refused():
    with pytest.raises(ValueError, match="`mask` must be bool.*mask == 0"):
        given_mask("mask", np.array([[0.0, -1e9]], "float32"))


def test_token_ids_are_refused():
    with pytest.raises(ValueError, match="Received: 7. Of token ids, pass"):
        given_mask("mask", np.array([[7, 0]]))


def test_padding_mask_has_the_sizes_that_are_known():
    mask = np.ones((2, 5), bool)
    check_padding_mask("mask", mask, 2, 5)
    check_padding_mask("mask", mask, None, 5)
    with pytest.raises(ValueError) as error:
        check_padding_mask("mask", mask, 2, 4)
    assert str(error.value) == (
        "`mask` must have shape (2, 4), True for real tokens. Received shape: "
        "(2, 5)."
    )


def test_sizes_that_are_not_known_may_be_the_same():
    assert same_size(3, 3) and not same_size(3, 4)
    assert same_size(None, 3) and same_size(3, None)
