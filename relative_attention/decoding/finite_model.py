"""The check that a model gives finite numbers."""

from typing import Any

import numpy as np
from keras import ops

from relative_attention.decoding.named_weights import named_weights
from relative_attention.errors import NotFiniteError
from relative_attention.models.finite_weights import not_finite
from relative_attention.tensor_type import Tensor


def check_numbers(model: Any, numbers: Tensor) -> None:
    """Raises an error unless what a model found for sentences is finite.

    Of logits that are not finite a search would make empty lines.

    Args:
        model: what found them.
        numbers: float tensor or array, scores or log-probabilities.

    Raises:
        NotFiniteError: naming the weight that is not finite or, where all
            weights are, the dtype in which the logits are not.
    """
    if np.isfinite(ops.convert_to_numpy(numbers)).all():
        return
    for name, weight in named_weights(model):
        if not np.isfinite(ops.convert_to_numpy(weight)).all():
            raise NotFiniteError(not_finite(name))
    raise NotFiniteError(
        "The logits of the model must be finite. Received: nan or inf, of "
        f"weights that are finite; computed in {_compute_dtype(model)} they "
        "overflow. Load the model in float32."
    )


def _compute_dtype(model: Any) -> str:
    return getattr(model, "compute_dtype", "the model's dtype")
