"""Keeps memory that has been freed for whatever is allocated next."""

import ctypes
import os
import sys

# Names of `mallopt`, and variables by which its user decides, of glibc.
_TRIM_THRESHOLD = -1
_MMAP_MAX = -4
_MOST = 2**31 - 1
_VARIABLES = (
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
)


def keep_freed_memory() -> bool:
    """Has this process keep what it frees, where the C library is glibc.

    A training step on a CPU frees all that it made, and makes it anew in the
    next. glibc gives large blocks back to the system in between, which then
    fills them with zeros, page after page. Kept, they are there at once; the
    most that a process ever holds is about the same, and it holds it until it
    ends. `train` calls this; call it before `model.fit` in a program of your
    own.

    Where the environment says how glibc is to do it (`GLIBC_TUNABLES`,
    `MALLOC_TRIM_THRESHOLD_` and the like), nothing is changed.

    Returns:
        A boolean, whether it does.

    Example:
    >>> ra.keep_freed_memory()
    True
    """
    if sys.platform != "linux" or _is_decided():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # Another C library, such as musl.
        return False
    # Large blocks in the heap, and the heap as large as it has been.
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, _MOST))


def _is_decided() -> bool:
    """Returns whether the environment sets what would be changed."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or any(
        name in os.environ for name in _VARIABLES
    )
