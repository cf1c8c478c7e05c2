import keras
import pytest
from keras import ops

from relative_attention.ops.precision import is_half
from relative_attention.ops.precision import widened


@pytest.mark.parametrize(
    ("dtype", "half", "wide"),
    [
        ("float16", True, "float32"),
        ("bfloat16", True, "float32"),
        ("float32", False, "float32"),
    ],
)
def test_half_precision_is_widened(dtype, half, wide):
    tensor = ops.ones(2, dtype)
    assert is_half(tensor) == half
    assert keras.backend.standardize_dtype(widened(tensor).dtype) == wide
