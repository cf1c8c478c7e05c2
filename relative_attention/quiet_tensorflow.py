"""Imports TensorFlow without its messages, for commands."""

import gc
import importlib.util
import os
import sys
import tempfile


def load_tensorflow_quietly() -> None:
    """Imports TensorFlow, if it is installed, and hides its banner.

    Raises:
        ImportError, ValueError: if TensorFlow or Keras, which it imports,
            cannot start. After other errors, all messages are shown.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" in sys.modules or not importlib.util.find_spec(
        "tensorflow"
    ):
        return
    # TensorFlow's objects stay until the process ends. Without the freeze the
    # garbage collector scans them again and again: a first translation took
    # 8.7 seconds of a processor, not 6.5 (medians of 3).
    gc.disable()
    # C++ writes half a dozen lines, whatever the log level (TensorFlow 2.21).
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        except (ImportError, ValueError):
            # The command has a line of its own for it.
            raise
        except BaseException:
            hidden.seek(0)
            os.write(shown, hidden.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
            gc.enable()
    gc.freeze()
