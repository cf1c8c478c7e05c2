"""Checks that weights are finite, also in the dtype of their file."""

from collections.abc import Mapping

import numpy as np

from relative_attention.errors import InputError
from relative_attention.tensor_type import Tensor


def check_finite(arrays: Mapping[str, Tensor], dtype: str = "float32") -> None:
    """Refuses weights that are not finite, or would not be in a dtype.

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


def not_finite(name: str) -> str:
    """Returns the message for a weight that holds nan or inf."""
    return (
        f"The weights of the model must be finite. Received: {name} holds nan "
        "or inf; the training that made it diverged. Take a checkpoint from "
        "before."
    )


def too_large(name: str, largest: float, dtype: str) -> str:
    """Returns the message for a weight beyond the range of a dtype."""
    return (
        f"`dtype` must have room for every weight; {dtype} ends at "
        f"{np.finfo(dtype).max:g}. Received: {name} with a magnitude of "
        f"{largest:g}. Store the weights in float32."
    )
