"""Says on which backends a training step is this package's own."""

import keras


def has_own_step() -> bool:
    """Returns whether the backend takes this package's training step.

    On the others a step is Keras' own.
    """
    return keras.backend.backend() in ("tensorflow", "jax")
