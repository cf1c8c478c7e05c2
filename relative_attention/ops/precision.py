"""The precision in which sums of many terms are made."""

import keras
from keras import ops

from relative_attention.tensor_type import Tensor


def is_half(tensor: Tensor) -> bool:
    """Returns whether a tensor is in float16 or bfloat16."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return dtype in ("float16", "bfloat16")


def widened(tensor: Tensor) -> Tensor:
    """Casts a float tensor to float32 if it is in half precision.

    In half precision a sum would be rounded to 11 or 8 bits at every step.
    """
    return ops.cast(tensor, "float32") if is_half(tensor) else tensor
