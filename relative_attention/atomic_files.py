"""Writes files and folders that are either whole or not there.

What happens on `kill -9`, at whatever step: a file keeps its old content until
one rename gives it the new; of a folder, the old one or the new one is found,
by `recover_directory` where the process died between two renames; what was
being written stays behind under a hidden name, and is nobody's content. Only
what cannot be replaced by a rename, a file that a container has mounted, a
device or a pipe, is written in place.
"""

import contextlib
import errno
import glob
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import IO
from typing import Any
from typing import TypeAlias

from relative_attention.file_lock import lock_file

AnyPath: TypeAlias = str | os.PathLike[str]

# Endings of what `atomic_directory` puts beside a folder: the old one between
# two renames, and what is being deleted.
_OLD = "-old"
_GONE = "-gone"


@contextlib.contextmanager
def atomic_file(path: AnyPath, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that takes the name `path` only when it is complete.

    It is written beside `path`, forced to disk and renamed. After an error, an
    interrupt or a full disk, what `path` was before is still there. A link
    stays, and leads to the new file, which has the permissions of the old.
    What is there and no regular file, a device or a pipe, is written to as it
    is, as the complete file could only take its place.
    """
    path = pathlib.Path(path)
    encoding = None if "b" in mode else "utf-8"
    direct = _direct_target(path)
    if direct is not None:
        with open(direct, mode, encoding=encoding) as file:
            yield file
        return
    path = resolved_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}-"
    )
    try:
        set_permissions(temporary, path, 0o666)
        with open(descriptor, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        replace_file(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def atomic_directory(path: AnyPath) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which is named `path` only when complete.

    It lies beside `path` until then. A folder that `path` named
    before is replaced; a link to it stays. Who dies while replacing it leaves
    one of the two, complete, for `recover_directory`.
    """
    path = resolved_path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    recover_directory(path)
    temporary = pathlib.Path(
        tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-")
    )
    aside = temporary.with_name(temporary.name + _OLD)
    try:
        with _lock_directory(temporary):
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with open(file, "rb") as written:
                        os.fsync(written.fileno())
            # Last, as they may not allow to write into it.
            set_permissions(temporary, path, 0o777)
            # A folder cannot be renamed over another; the old one steps
            # aside, so that at no moment is there half of either.
            if path.exists():
                os.rename(path, aside)
            os.rename(temporary, path)
            if aside.exists():
                delete_directory(aside)
    except BaseException:
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def recover_directory(path: AnyPath) -> None:
    """Puts a folder back whose writer died while replacing it.

    It died between the two renames of `atomic_directory`: the old folder has
    stepped aside, so the new one beside it is complete, and takes the name. A
    writer that is alive is waited for. Where nothing is to be put back, or
    the disk is read-only, nothing is done.

    Args:
        path: path of the folder.
    """
    path = resolved_path(path)
    if path.exists():
        return
    beside = path.parent / f".{glob.escape(path.name)}-????????{_OLD}"
    for name in sorted(glob.glob(str(beside))):
        aside = pathlib.Path(name)
        temporary = aside.with_name(aside.name.removesuffix(_OLD))
        with contextlib.suppress(OSError), _lock_directory(temporary):
            if path.exists():
                return
            os.rename(temporary if temporary.exists() else aside, path)
            if aside.exists():
                delete_directory(aside)
            return


def delete_directory(path: AnyPath) -> None:
    """Deletes a folder, no half of which is ever found under its name.

    What cannot be deleted, such as a file that a network disk keeps while it
    is open, stays behind hidden; an earlier such rest is deleted too.
    """
    path = pathlib.Path(path)
    hidden = path.name.lstrip(".").removesuffix(_OLD)
    gone = path.with_name(f".{hidden}{_GONE}")
    shutil.rmtree(gone, ignore_errors=True)
    try:
        os.rename(path, gone)
    except OSError:
        # The rest of an earlier one is in the way.
        gone = path
    shutil.rmtree(gone, ignore_errors=True)


@contextlib.contextmanager
def _lock_directory(path: AnyPath) -> Iterator[None]:
    """Holds the lock of a folder, waiting for it, where there are locks."""
    with contextlib.ExitStack() as stack:
        # A network disk may not lock a folder; it is used without then.
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            lock_file(descriptor, wait=True)
        yield


def replace_file(temporary: AnyPath, path: AnyPath) -> None:
    """Gives a complete file its name, in place of what has it.

    Args:
        temporary: path of the file, beside `path`.
        path: path, see `resolved_path`.
    """
    try:
        os.replace(temporary, path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # A single file that a container has mounted cannot be replaced.
        shutil.copyfile(temporary, path)
        os.unlink(temporary)


def is_replaced(path: AnyPath) -> bool:
    """Returns whether `atomic_file` replaces what is there, or makes a file.

    Otherwise it writes to what is there as it is.

    Args:
        path: path to write to.
    """
    direct = _direct_target(path)
    if isinstance(direct, int):
        os.close(direct)
    return direct is None


def _direct_target(path: AnyPath) -> AnyPath | int | None:
    """Returns what to open in place of a new file, or `None` to make one.

    A path, or the descriptor of a file that this process has open: opened by
    its path, `/dev/stdout` of `command >> file` would be emptied first.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    link = os.path.abspath(path)
    while os.path.islink(link):
        folder, name = os.path.split(link)
        if _is_descriptors(folder):
            return os.dup(int(name))
        link = os.path.join(os.path.realpath(folder), os.readlink(link))
    return None if stat.S_ISREG(mode) else path


def _is_descriptors(folder: str) -> bool:
    """Returns whether a folder is that of the open files of this process."""
    names = ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd")
    return os.path.realpath(folder) in map(os.path.realpath, names)


def resolved_path(path: AnyPath) -> pathlib.Path:
    """Returns where links lead to, whether or not something is there."""
    return pathlib.Path(os.path.realpath(path))


def set_permissions(temporary: AnyPath, path: AnyPath, usual: int) -> None:
    """Gives a file the permissions and owner of `path`, or the usual ones.

    Temporary files are for their owner's eyes; what is kept is not.

    Args:
        temporary: path of the file.
        path: path of what it replaces, if that is there.
        usual: int. The usual permissions, of which the process takes some.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.chmod(temporary, usual & ~_umask())
        return
    # Only root gives files away. Before the permissions, as it takes some.
    with contextlib.suppress(OSError):
        os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _umask() -> int:
    """Returns the permissions that this process takes from new files."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
