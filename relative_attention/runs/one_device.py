"""Runs on JAX, which train on one device: what of a recipe they can do."""

import os

import keras

from relative_attention.errors import InputError
from relative_attention.runs.recipe import Recipe

# Shapes of batches, each of which JAX compiles a step for: of the text to
# learn from, and of the short text to validate on.
TRAIN_SHAPES = 12
VALIDATION_SHAPES = 4


def trains_on_tensorflow() -> bool:
    """Returns whether a run uses `tf.distribute` and `tf.data`."""
    return keras.backend.backend() == "tensorflow"


def check_backend(recipe: Recipe) -> None:
    """Checks that the backend of Keras can train a recipe.

    Args:
        recipe: A `Recipe`.

    Raises:
        InputError: if it cannot; the error names the key.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return
    if backend != "jax":
        raise InputError(
            "`train` needs Keras' backend to be tensorflow or jax. Received: "
            f"KERAS_BACKEND={backend}."
        )
    if os.environ.get("TF_CONFIG"):
        raise InputError(
            "TF_CONFIG sets up several machines, which train with TensorFlow "
            "alone. Take it out of the environment, or set "
            "KERAS_BACKEND=tensorflow."
        )
    training = recipe.training
    if training.devices not in (1, "all"):
        raise InputError(
            "`training.devices` must be 1 on JAX, which trains on the first "
            f"device; more need TensorFlow. Received: {training.devices}."
        )
    if training.batch_tokens == "auto":
        raise InputError(
            "`training.batch_tokens` must be a number on JAX: each that was "
            "tried would be compiled for a minute. Received: 'auto'."
        )
