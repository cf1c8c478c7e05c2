"""Files and folders that are complete or absent, whenever a process dies.

A file is written under a hidden name next to its own, and renamed when it is
complete. After a `kill -9` at any moment, its name still leads to the old or
the new content. A folder is filled and renamed in the same way; an old one is
deleted just before. What a killed process was writing stays under a hidden
name. A `resumable_file` is for hours of work: the next process continues it,
and deletes hidden leftovers.
"""

import contextlib
import glob
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import socket
import stat
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import IO
from typing import Any
from typing import BinaryIO
from typing import TypeAlias

from relative_attention.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has other locks.
    fcntl = None  # type: ignore[assignment]

AnyPath: TypeAlias = str | os.PathLike[str]

# In the folder of a run while a process writes it, and after a `kill -9`.
RUN_LOCK = "run.lock"


def check_is_free(output: AnyPath) -> None:
    """Raises `InputError` unless the path is free or an empty folder.

    A mounted folder is refused, as it cannot be renamed.
    """
    output = pathlib.Path(output)
    if output.is_mount():
        raise InputError(
            f"{output} is where a disk or volume is mounted. Name a new folder "
            f"in it, such as {output / 'model'}."
        )
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(
            f"{output} is there already. Choose another folder, or delete it."
        )


# === Files ===


@contextlib.contextmanager
def atomic_file(path: AnyPath, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that gets the name `path` only when it is complete.

    After an error, an interrupt or a full disk, the old file is still there. A
    link is kept, and leads to the new file, which has the permissions of the
    old one. Devices and pipes are written to directly.
    """
    encoding = None if "b" in mode else "utf-8"
    if is_stream(path):
        with open(path, mode, encoding=encoding) as file:
            yield file
        return
    path = _resolved(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden_beside(path)
    try:
        with open(temporary, mode.replace("w", "x"), encoding=encoding) as file:
            # At once, so that a private file is private while it is written.
            _copy_permissions(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_stream(path: AnyPath) -> bool:
    """Returns whether a path is a device or a pipe, which has no content."""
    return os.path.exists(path) and not os.path.isfile(path)


def read_json_object(path: AnyPath) -> dict[str, Any]:
    """Reads a JSON object; raises like `read_json`, or if it is not one."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(
            f"it must hold a JSON object, and holds {type(content).__name__}"
        )
    return content


def read_json(path: AnyPath) -> Any:
    """Reads a JSON file, with or without a byte order mark.

    Raises:
        OSError: if there is no such file, or it cannot be read.
        ValueError: if it is not JSON.
    """
    try:
        return json.loads(pathlib.Path(path).read_bytes().decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def write_json(path: AnyPath, content: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    with atomic_file(path, "w") as file:
        json.dump(content, file, indent=1)


def write_lines(path: AnyPath, lines: Iterable[object]) -> None:
    """Writes a text, whole or not at all."""
    with atomic_file(path, "w") as file:
        file.writelines(f"{line}\n" for line in lines)


def file_sha256(path: AnyPath) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


# === Folders ===


@contextlib.contextmanager
def atomic_directory(path: AnyPath) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which is named `path` only when complete.

    Until then it is next to `path`. An old folder at `path` is deleted just
    before the new one gets the name, so a kill in between leaves neither. Only
    what can be made again may be replaced. A link to the folder is kept.
    """
    path = _resolved(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden_beside(path)
    # A private folder is private while it is written.
    mode = stat.S_IMODE(path.stat().st_mode) | 0o700 if path.exists() else 0o777
    temporary.mkdir(mode)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with open(file, "rb") as written:
                    os.fsync(written.fileno())
        # Last, as the permissions may forbid writing.
        _copy_permissions(path, temporary)
        # A folder cannot be renamed over another.
        if path.exists():
            delete_directory(path)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def delete_directory(path: AnyPath) -> None:
    """Deletes a folder; it is never partly there under its name.

    Files that cannot be deleted, such as open files on a network disk, stay
    under a hidden name. Leftovers of an earlier deletion are deleted, too.
    """
    path = pathlib.Path(path)
    gone = path.with_name(f".{path.name.lstrip('.')}-gone")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rename(path, gone)
    shutil.rmtree(gone, ignore_errors=True)
    # If leftovers of an earlier deletion were in the way.
    shutil.rmtree(path, ignore_errors=True)


def _resolved(path: AnyPath) -> pathlib.Path:
    """Resolves links, even to a missing target."""
    return pathlib.Path(os.path.realpath(path))


def _hidden_beside(path: pathlib.Path) -> pathlib.Path:
    """Returns a new hidden name."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}")


def _copy_permissions(path: pathlib.Path, new: pathlib.Path) -> None:
    """Gives `new` the permissions of the file it replaces, if any."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copymode(path, new)


# === Locks, which end with their process ===


def lock_file(descriptor: int, wait: bool = False) -> bool:
    """Locks an open file or folder until it is closed or the process dies.

    Returns:
        A boolean; `False` if another process holds the lock.

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


@contextlib.contextmanager
def lock_run(
    directory: AnyPath,
    writes: bool = True,
    report: Callable[[str], object] = print,
) -> Iterator[None]:
    """Keeps other processes from writing a run while this one does.

    Otherwise a job that is queued again while its first process is still alive
    would delete that process' checkpoints. The lock also works between
    machines.

    Args:
        directory: The path of the run; created if missing. A file is left for
            the caller to refuse.
        writes: A boolean to indicate whether this process writes. Of several
            machines, only the chief writes and takes the lock.
        report: A function to call with a line if the disk has no locks; the
            run is written without one.

    Raises:
        InputError: if another process writes the run; the error names it.
    """
    directory = pathlib.Path(directory)
    if not writes or directory.is_file():
        yield
        return
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RUN_LOCK
    file = _open_locked(path, report)
    if file is None:
        process, _, host = path.read_text("utf-8").strip().partition(" ")
        holder = f" (process {process} on {host})" if host else ""
        raise InputError(
            f"Another process{holder} is writing the run in {directory}. Wait "
            "until it has ended, or end it, and try again; or choose another "
            "`--output`."
        )
    with file:
        try:
            file.truncate(0)
            file.write(f"{os.getpid()} {socket.gethostname()}\n".encode())
            file.flush()
            yield
        finally:
            # While it is locked; afterwards it may be another process' file.
            with contextlib.suppress(OSError):
                path.unlink()
                if is_new:
                    # Nothing is left of a run that was refused.
                    directory.rmdir()


def _open_locked(
    path: pathlib.Path, report: Callable[[str], object] | None = None
) -> BinaryIO | None:
    """Opens a file and locks it, or returns `None` if another process has.

    Without locks it is only opened, and `report` called with a line.
    """
    while True:
        # Creates the file, or keeps its content.
        file = open(path, "a+b")
        try:
            is_locked = lock_file(file.fileno())
        except OSError as error:
            if report is not None:
                report(
                    f"{path.parent} cannot be locked ({error}): make sure that "
                    "no other process trains there."
                )
            return file
        if not is_locked:
            file.close()
            return None
        # The last holder may have renamed or deleted what was opened.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()


@contextlib.contextmanager
def locked_directory(path: AnyPath) -> Iterator[None]:
    """Holds the lock of a folder, after waiting for it, if there are locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            lock_file(descriptor, wait=True)
        yield


# === Long files that the next process continues ===


class ResumableFile:
    """A file that grows in steps, which are kept if the process dies.

    Attributes:
        record: dict. The content of the journal: `bytes`, how much was kept;
            `counts`, the caller's counts for that; `origin`, the inputs.
    """

    def __init__(
        self, file: BinaryIO, journal: pathlib.Path, record: dict[str, Any]
    ) -> None:
        self.record = record
        self._file = file
        self._journal = journal

    @property
    def counts(self) -> dict[str, int]:
        """The caller's counts for the file, as of the last `keep`."""
        return self.record["counts"]

    def write(self, data: bytes) -> None:
        """Writes bytes, which count after the next `keep`."""
        self._file.write(data)

    def keep(self, **counts: int) -> None:
        """Makes everything written so far permanent.

        Args:
            **counts: ints. The caller's counts for the file.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        num_bytes = self._file.tell()
        record = {**self.record, "bytes": num_bytes, "counts": counts}
        write_json(self._journal, record)
        self.record = record


@contextlib.contextmanager
def resumable_file(
    path: AnyPath,
    origin: Mapping[str, Any],
    counts: Mapping[str, int],
    overwrite: bool = False,
) -> Iterator[ResumableFile]:
    """Opens a file to write, and continues where the last process stopped.

    Two files are next to `path` until it is complete: `.partial`, the content
    so far, locked while a process writes it; and `.journal`, JSON with the
    inputs and with how much of the content counts. Content after the last
    `keep`, perhaps half a line, is cut off by the next process. After an error,
    an interrupt or a kill both files stay, if anything was kept.

    Args:
        path: path of the file.
        origin: dict of JSON values. The inputs of the file, with names for
            errors. A partial file is only continued if all of them are the
            same.
        counts: dict of ints. The initial `ResumableFile.counts`.
        overwrite: bool. Whether to start again. Defaults to `False`.

    Yields:
        `ResumableFile`.

    Raises:
        InputError: if the partial file has other inputs (the error names them)
            or unknown ones, or another process writes it.
    """
    path = _resolved(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    journal = path.with_name(f"{path.name}.journal")
    # In the form of the journal, for the comparison.
    origin = json.loads(json.dumps(origin))
    # A network disk without locks is used without.
    file = _open_locked(partial)
    if file is None:
        raise InputError(
            f"Another process is writing {partial}. Wait until it has ended, "
            "or end it, and try again; or choose another output."
        )
    with file:
        # Leftovers of a process that was killed while it wrote the journal.
        beside = f".{glob.escape(journal.name)}-????????"
        for left in path.parent.glob(beside):
            left.unlink(missing_ok=True)
        record: dict[str, Any]
        record = {"bytes": 0, "counts": counts, "origin": origin}
        # The journal of an empty file may be left by a process that died after
        # it was done.
        if partial.stat().st_size and not overwrite:
            record = _read_record(partial, journal)
        _check_same(record["origin"], origin, partial)
        opened = ResumableFile(file, journal, record)
        _copy_permissions(path, partial)
        try:
            file.truncate(record["bytes"])
            file.seek(record["bytes"])
            opened.keep(**record["counts"])
            yield opened
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":
                # On Windows, an open file cannot be renamed.
                file.close()
            os.replace(partial, path)
            journal.unlink()
        except BaseException:
            if not opened.record["bytes"]:
                partial.unlink(missing_ok=True)
                journal.unlink(missing_ok=True)
            raise


def _read_record(
    partial: pathlib.Path, journal: pathlib.Path
) -> dict[str, Any]:
    """Returns the content of the journal of a file that was begun."""
    try:
        record = read_json_object(journal)
        fits = (
            isinstance(record["origin"], dict)
            and all(type(n) is int for n in record["counts"].values())
            and 0 <= record["bytes"] <= partial.stat().st_size
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise InputError(
            f"{partial} has been begun, but {journal} is missing, damaged or "
            f"of another file, so it cannot be resumed. {_WAY_OUT}"
        )
    return record


def _check_same(
    before: Mapping[str, Any], now: Mapping[str, Any], partial: pathlib.Path
) -> None:
    """Refuses to continue a file with other inputs."""
    for name in {**now, **before}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        values = f" ({_shown(old)}, now {_shown(new)})"
        if len(values) > 60:  # Checksums do not help.
            values = ""
        raise InputError(
            f"{partial} was begun with another {name}{values}. Resume it with "
            f"the same. {_WAY_OUT}"
        )


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


_WAY_OUT = "Or pass `--overwrite` to start again, or choose another output."
