"""Imports TensorFlow without its messages."""

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator


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
    # TensorFlow's objects stay until the process ends. Without the freeze
    # the garbage collector scans them again and again, a second of a first
    # translation (`benchmarks/decoding/first_translation.py`).
    gc.disable()
    problem: Exception | None = None
    # Some lines are written before the log level is read (TensorFlow 2.21).
    with _stderr_where(lambda line: False):
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        except (ImportError, ValueError) as error:
            problem = error
    gc.enable()
    if problem is not None:
        raise problem
    gc.freeze()


def without_info_lines() -> contextlib.AbstractContextManager[None]:
    """Hides C++ logs of level INFO; SentencePiece has no option for it."""
    return _stderr_where(lambda line: b" LOG(INFO) " not in line)


@contextlib.contextmanager
def _stderr_where(is_shown: Callable[[bytes], bool]) -> Iterator[None]:
    """Filters standard error, also C++'s; shows all lines after an error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        lines: Iterable[bytes] = filter(is_shown, hidden)
        try:
            yield
        except BaseException:
            lines = hidden
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            hidden.seek(0)
            os.write(2, b"".join(lines))
