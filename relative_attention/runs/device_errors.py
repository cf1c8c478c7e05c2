"""Tells what an error of a device means, whatever computes."""

import keras


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether the memory of a device was too small.

    Args:
        error: An exception, raised by a training step.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return isinstance(error, tf.errors.ResourceExhaustedError)
    # JAX has one type for all that goes wrong on a device.
    return "RESOURCE_EXHAUSTED" in str(error)


def is_lost_machine(error: Exception) -> bool:
    """Returns whether another machine that trained too cannot be reached.

    Args:
        error: An exception, raised by a training step.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return isinstance(
        error, tf.errors.UnavailableError | tf.errors.AbortedError
    )
