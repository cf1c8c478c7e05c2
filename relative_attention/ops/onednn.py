"""Whether TensorFlow computes with oneDNN."""

import functools


@functools.cache
def computes_with_onednn() -> bool:
    """Returns whether TensorFlow computes with oneDNN in this process.

    It does so by itself on processors with AVX-512 or AMX, unless the
    environment says `TF_ENABLE_ONEDNN_OPTS=0`.
    """
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())
