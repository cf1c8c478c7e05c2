"""Weights that are numbers, and stay numbers in what they are stored as."""

import numpy as np

from relative_attention.errors import InputError


def check_finite(arrays, dtype="float32"):
    """Refuse weights that are not finite, or would not be in a dtype.

    A file of them would translate to nothing, without a word.

    Args:
        arrays: dict of name to array.
        dtype: string. What they are to be stored as. Defaults to
            `"float32"`.

    Raises:
        InputError: naming a weight and its largest magnitude.
    """
    for name, array in arrays.items():
        array = np.asarray(array)
        if not np.isfinite(array).all():
            raise InputError(not_finite(name))
        with np.errstate(over="ignore"):
            is_stored = np.isfinite(array.astype(dtype)).all()
        if not is_stored:
            raise InputError(too_large(name, np.abs(array).max(), dtype))


def not_finite(name):
    """The error for a weight that is no number."""
    return (
        f"The weights of the model must be finite. Received: {name} holds nan "
        "or inf; the training that made it diverged. Take a checkpoint from "
        "before."
    )


def too_large(name, largest, dtype):
    """The error for a weight that a dtype has no number for."""
    return (
        f"`dtype` must have room for every weight; {dtype} ends at "
        f"{np.finfo(dtype).max:g}. Received: {name} with a magnitude of "
        f"{largest:g}. Store the weights in float32."
    )
