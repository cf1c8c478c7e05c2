"""Imports TensorFlow without what it prints of itself."""

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Iterator


def load_tensorflow_quietly() -> None:
    """Imports TensorFlow, if it is installed, and holds its banner back.

    Some of that comes before `TF_CPP_MIN_LOG_LEVEL` is read (TensorFlow 2.21).
    After an error everything is shown. What is imported stays until the
    process ends, and is not looked through for garbage, for which a first
    translation would wait (`benchmarks/decoding/first_translation.py`).
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if importlib.util.find_spec("tensorflow") is None:
        return
    if "tensorflow" in sys.modules:
        # Whatever has been made since may become garbage.
        _import_tensorflow()
        return
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        _import_tensorflow()
    finally:
        if was_collecting:
            gc.enable()
    gc.freeze()


def _import_tensorflow() -> None:
    with _hidden_unless_failing():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def without_info_lines() -> Iterator[None]:
    """Leaves out of standard error what C++ logs at level INFO.

    SentencePiece inside TensorFlow Text has no switch for it.
    """
    with _held_back() as read:
        try:
            yield
        finally:
            shown = [line for line in read() if b" LOG(INFO) " not in line]
            os.write(2, b"".join(shown))


@contextlib.contextmanager
def _hidden_unless_failing() -> Iterator[None]:
    """Holds standard error back, that of C++ too; shows it after an error."""
    with _held_back() as read:
        try:
            yield
        except BaseException:
            os.write(2, b"".join(read()))
            raise


@contextlib.contextmanager
def _held_back() -> Iterator[Callable[[], list[bytes]]]:
    """Sends standard error into a file.

    Yields a function that ends this and reads the lines of the file.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)

        def read() -> list[bytes]:
            sys.stderr.flush()
            os.dup2(kept, 2)
            hidden.seek(0)
            return hidden.readlines()

        try:
            yield read
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
