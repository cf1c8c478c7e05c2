"""Whether TensorFlow computes with oneDNN."""

import functools


@functools.cache
def computes_with_onednn() -> bool:
    """Returns whether TensorFlow computes with oneDNN in this process.

    It does so by itself on processors with AVX-512 or AMX, unless the
    environment says `TF_ENABLE_ONEDNN_OPTS=0`.
    """
    # TensorFlow tells it nowhere in public; a version that moves this gets the
    # choices made for processors without oneDNN, which are as exact.
    try:
        from tensorflow.python.util._pywrap_util_port import IsMklEnabled
    except ImportError:
        return False
    return bool(IsMklEnabled())
