"""Locks a run, which one process at a time may write."""

import contextlib
import os
import pathlib
import socket
from collections.abc import Callable
from collections.abc import Iterator

from relative_attention.errors import InputError
from relative_attention.file_lock import lock_file

# In the folder of a run while it is written, and after a `kill -9`; nobody's
# content.
RUN_LOCK = "run.lock"


@contextlib.contextmanager
def lock_run(
    directory: pathlib.Path | str,
    writes: bool = True,
    report: Callable[[str], object] = print,
) -> Iterator[None]:
    """Keeps other processes from writing a run while this one does.

    A job that is queued again while its first process is still alive would
    delete that one's checkpoints. The lock is that of a file in the folder,
    which also keeps out processes on other machines. It ends with the
    process, however it dies.

    Args:
        directory: The path of the run; made if it is not there. A file is
            left to whoever refuses it.
        writes: A boolean to indicate whether this process writes; of several
            machines the chief does, and takes the lock.
        report: A function that is called with a line if the disk has no
            locks; the run is written all the same.

    Raises:
        InputError: if another process writes the run; it is named.
    """
    directory = pathlib.Path(directory)
    if not writes or directory.is_file():
        yield
        return
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RUN_LOCK
    descriptor = _open_locked(path, report)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield
    finally:
        # While it is locked: afterwards it may be another's.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)
        if is_new:
            # Of a run that was refused nothing stays.
            with contextlib.suppress(OSError):
                directory.rmdir()


def _open_locked(path: pathlib.Path, report: Callable[[str], object]) -> int:
    """Returns the descriptor of the lock file, which this process locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not lock_file(descriptor):
                raise InputError(_held(path, descriptor))
        except InputError:
            os.close(descriptor)
            raise
        except OSError as error:
            report(
                f"{path.parent} cannot be locked ({error}): see to it that "
                "no other process trains there."
            )
            return descriptor
        # Who held the lock before has deleted the file; it locks nobody out.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)


def _held(path: pathlib.Path, descriptor: int) -> str:
    """Says which process holds the lock, as it wrote into the file."""
    process, _, host = os.read(descriptor, 1000).decode().strip().partition(" ")
    holder = f" (process {process} on {host})" if host else ""
    return (
        f"Another process{holder} is writing the run in {path.parent}. Wait "
        "until it has ended, or end it, and try again; or choose another "
        "`--output`."
    )
