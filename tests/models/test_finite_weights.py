"""Weights that are not finite, or would not be in the dtype of a file."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.finite_weights import check_finite


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (7e4, "float16", "float16 ends at 65504.*b with a magnitude of 70000"),
        (-7e4, "float16", "magnitude of 70000"),
        (np.inf, "float32", "b holds nan or inf"),
        (np.nan, "float16", "b holds nan or inf"),
    ],
)
def test_weight_that_would_be_no_number_is_named(value, dtype, message):
    arrays = {"a": np.zeros(2), "b": np.array([1.0, value])}
    with pytest.raises(ra.InputError, match=message):
        check_finite(arrays, dtype)


def test_numbers_within_the_range_are_taken():
    check_finite({"a": np.array([7e4])})
    check_finite({"a": np.array([65519.0, -65519.0])}, "float16")
    check_finite({"a": np.zeros((0, 3))}, "float16")
