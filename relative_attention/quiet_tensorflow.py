"""TensorFlow without what it says of itself at start."""

import contextlib
import importlib.util
import os
import sys
import tempfile


def load_tensorflow_quietly():
    """Import TensorFlow, if it is installed, and hold its banner back.

    Some of that comes before `TF_CPP_MIN_LOG_LEVEL` is read (TensorFlow 2.21).
    After an error everything is shown.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if importlib.util.find_spec("tensorflow") is None:
        return
    with _hidden_unless_failing():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def _hidden_unless_failing():
    """Hold standard error back, that of C++ too; show it after an error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(kept, hidden.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
