"""Tells whether to compute in this package's own way or in Keras'."""

import functools

import keras


# The devices of a process do not change, and listing them takes as long as a
# small operation.
@functools.cache
def prefers_own_kernels() -> bool:
    """Returns whether this package's own kernels were measured to be faster.

    Some operations, such as layer normalization and the largest of a
    vocabulary, are written anew because that is faster with TensorFlow and JAX
    on CPUs. On PyTorch Keras' own are faster, and on GPUs and TPUs neither has
    been measured: there Keras' own are taken. The numbers are the same but for
    rounding.
    """
    if keras.backend.backend() == "torch":
        return False
    devices = keras.distribution.list_devices()
    return all(device.startswith("cpu") for device in devices)
