"""Imports TensorFlow without what it prints of itself."""

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
        ImportError, ValueError: if it, or Keras, which it imports, cannot
            start. After another error all that it printed is shown.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" in sys.modules or not importlib.util.find_spec(
        "tensorflow"
    ):
        return
    # What TensorFlow brings stays until the process ends. Without the freeze
    # the garbage collector looks through it again and again, a second of a
    # first translation (`benchmarks/decoding/first_translation.py`).
    gc.disable()
    problem: Exception | None = None
    # Some lines come before the level of logging is read (TensorFlow 2.21).
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


@contextlib.contextmanager
def without_info_lines() -> Iterator[None]:
    """Hides what C++ logs at level INFO; SentencePiece has no switch for it."""
    with _stderr_where(lambda line: b" LOG(INFO) " not in line):
        yield


@contextlib.contextmanager
def _stderr_where(is_shown: Callable[[bytes], bool]) -> Iterator[None]:
    """Filters lines on standard error, C++'s too; after an error shows all."""
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
