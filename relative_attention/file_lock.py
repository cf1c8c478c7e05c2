"""Locks files for as long as the process that holds them lives."""

try:
    import fcntl
except ImportError:
    # Windows has other locks.
    fcntl = None  # type: ignore[assignment]


def lock_file(descriptor: int, wait: bool = False) -> bool:
    """Locks an open file, until it is closed or its process dies.

    Args:
        descriptor: int. Of the open file.
        wait: bool. Whether to wait for another process that holds the lock.

    Returns:
        A boolean to indicate whether it is locked now; `False` if another
        process holds the lock.

    Raises:
        OSError: if the disk or the system has no such locks.
    """
    if fcntl is None:
        raise OSError("This system has no locks of files.")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
