"""The precision in which sums of many terms are made."""

import keras
from keras import ops


def is_half(tensor):
    """Whether a tensor is in float16 or bfloat16."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return dtype in ("float16", "bfloat16")


def widened(tensor):
    """A float tensor in float32 where it is in half precision, else as it is.

    In half precision a sum would be rounded to 11 or 8 bits at every step.
    """
    return ops.cast(tensor, "float32") if is_half(tensor) else tensor
