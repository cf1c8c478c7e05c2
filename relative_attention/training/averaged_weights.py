"""Puts the moving average of its weights into a model, for a while.

`averaging_adam.py` says why the average is not that of Keras.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Gives a model the moving average of its weights, within a context.

    It is for evaluation, translation and saving; not for training steps. At
    the end, also after an exception, the weights are what they were, bit for
    bit. With an optimizer that keeps no average (see `AveragingAdam`), or
    before the first update, nothing changes. Weights that the optimizer was
    not built with, as they were frozen, stay; those that were frozen later
    have the average of what they were.

    The weights wait in the memory of the host: a device may have no room for
    them twice.

    Args:
        model: compiled Keras model.
    """
    pairs = _averages(model)
    # Copies: on some backends the array is the variable's own memory.
    raw = [np.array(keras.ops.convert_to_numpy(v)) for v, _ in pairs]
    try:
        for variable, average in pairs:
            # A copy here, too: JAX gives away the memory of what it updates.
            variable.assign(keras.ops.copy(average))
        yield
    finally:
        for (variable, _), value in zip(pairs, raw):
            variable.assign(value)


class AveragedValidation(keras.callbacks.Callback):
    """Validates, in `fit` and `evaluate`, with the averaged weights.

    It comes first in the list of callbacks. Where validation ends in an
    exception, `restore` gives the model its own weights back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._swapped = contextlib.ExitStack()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Puts the averages in the place of the weights."""
        self.restore()
        self._swapped.enter_context(averaged_weights(self.model))

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Puts the weights back."""
        self.restore()

    def restore(self) -> None:
        """Puts the model's own weights back, if they are away."""
        self._swapped.close()


def _averages(
    model: keras.Model,
) -> list[tuple[keras.Variable, keras.Variable]]:
    """Returns pairs of a weight and its average; `[]` before any update."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    averages = getattr(optimizer, "averages", None)
    if not averages or not keras.ops.convert_to_numpy(optimizer.iterations):
        return []
    # Not the model's list, which changes with `trainable`.
    return optimizer.averaged_variables()
