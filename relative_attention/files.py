"""Files and folders that are complete or absent, whenever a process dies.

A file is written under a hidden name next to its own, and renamed when it is
complete. After a `kill -9` at any moment, its name still leads to the old or
the new content. A folder is filled and renamed in the same way; an old one is
deleted just before. What a killed process was writing stays under a hidden
name. A hidden folder is deleted when the next folder of its name is written. A
file that takes hours is a `file_in_parts`: the next process only makes the
parts that are missing.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
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

# In a folder while a process writes it, and after a `kill -9`.
RUN_LOCK = "run.lock"


def check_is_free(output: AnyPath) -> None:
    """Raises `InputError` unless the path is free or an empty folder.

    A mounted folder is refused, as it cannot be renamed.
    """
    if not str(output):
        raise InputError("The name of a new folder must not be empty.")
    # "." has no parent, and so looks like a mounted folder.
    output = pathlib.Path(os.path.abspath(output))
    folder = output.parent
    while not (folder.exists() or folder.is_symlink()):
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(
            f"{output} cannot be made, as {folder} is no folder. Choose "
            "another place."
        )
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
    _delete_left_behind(path)
    # A private folder is private while it is written.
    mode = stat.S_IMODE(path.stat().st_mode) | 0o700 if path.exists() else 0o777
    with _new_hidden_folder(path, mode) as temporary:
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


@contextlib.contextmanager
def _new_hidden_folder(path: pathlib.Path, mode: int) -> Iterator[pathlib.Path]:
    """Makes a folder under a hidden name, and locks it if there are locks."""
    while True:
        folder = _hidden_beside(path)
        folder.mkdir(mode)
        with _try_lock(folder) as is_locked:
            # Before it was locked, another process may have deleted it.
            if is_locked is not False and folder.exists():
                yield folder
                return


def _delete_left_behind(path: pathlib.Path) -> None:
    """Deletes what killed processes were filling, to be named `path`."""
    name = re.compile(rf"\.{re.escape(path.name)}-[0-9a-f]{{8}}")
    with contextlib.suppress(OSError):
        for folder in path.parent.iterdir():
            if name.fullmatch(folder.name) and folder.is_dir():
                # The process that fills a folder holds its lock.
                with _try_lock(folder) as is_locked:
                    if is_locked:
                        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _try_lock(folder: pathlib.Path) -> Iterator[bool | None]:
    """Yields whether this process holds a folder's lock; `None` without one."""
    with contextlib.ExitStack() as stack:
        is_locked = None
        # It may be gone, or on a disk without locks.
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            is_locked = lock_file(descriptor)
        yield is_locked


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
def lock_directory(
    directory: AnyPath,
    writes: bool = True,
    report: Callable[[str], object] = print,
) -> Iterator[None]:
    """Keeps other processes from writing a folder while this one does.

    Otherwise a job that is queued again while its first process is still alive
    would delete that process' checkpoints. The lock also works between
    machines.

    Args:
        directory: The path of the folder; created if missing. A file is left
            for the caller to refuse.
        writes: A boolean to indicate whether this process writes. Of several
            machines, only the chief writes and takes the lock.
        report: A function to call with a line if the disk has no locks; the
            folder is written without one.

    Raises:
        InputError: if another process writes it; the error names that process.
    """
    directory = pathlib.Path(directory)
    if not writes or directory.is_file():
        yield
        return
    if directory.is_symlink() and not directory.exists():
        raise InputError(
            f"{directory} is a link to {os.readlink(directory)}, which is not "
            "there. Make that folder, or delete the link."
        )
    is_new = not directory.exists()
    path = directory / RUN_LOCK
    file = _open_locked(path, report)
    if file is None:
        process, _, host = path.read_text("utf-8").strip().partition(" ")
        holder = f" (process {process} on {host})" if host else ""
        raise InputError(
            f"Another process{holder} is writing {directory}. Wait until it "
            "has ended, or end it, and try again; or choose another `--output`."
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
    path: pathlib.Path, report: Callable[[str], object]
) -> BinaryIO | None:
    """Opens a file and locks it, or returns `None` if another process has."""
    while True:
        # The last holder may just have deleted it.
        path.parent.mkdir(parents=True, exist_ok=True)
        # Creates the file, or keeps its content.
        file = open(path, "a+b")
        try:
            is_locked = lock_file(file.fileno())
        except OSError as error:
            report(
                f"{path.parent} cannot be locked ({error}): make sure that no "
                "other process writes there."
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


# === Long jobs, part by part ===

_ORIGIN = "origin.json"
_WAY_OUT = "Or pass `--overwrite` to start again, or choose another output."


class Parts:
    """The parts of a long file, each complete in a file of its own.

    Args:
        directory: The path of their folder.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory

    def __contains__(self, number: int) -> bool:
        return self._path(number).is_file()

    def __len__(self) -> int:
        return sum(path.name.isdecimal() for path in self.directory.iterdir())

    def add(
        self,
        number: int,
        content: bytes,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a part, counted from 0; `notes` are kept beside it."""
        # First, as the part is complete when its own file is there.
        if notes:
            write_json(self._path(number).with_suffix(".json"), notes)
        with atomic_file(self._path(number)) as file:
            file.write(content)

    def notes(self, number: int) -> dict[str, Any]:
        """Returns the notes of a part, `{}` if it has none."""
        path = self._path(number).with_suffix(".json")
        return read_json_object(path) if path.exists() else {}

    def join(self, path: pathlib.Path) -> None:
        """Writes all parts, in order, to one file."""
        # In this folder, so that a kill leaves nothing beside the file.
        joined = self.directory / ".joined"
        with open(joined, "wb") as file:
            for number in range(len(self)):
                with open(self._path(number), "rb") as part:
                    shutil.copyfileobj(part, file)
            file.flush()
            os.fsync(file.fileno())
        _copy_permissions(path, joined)
        os.replace(joined, path)

    def clear(self) -> None:
        """Deletes all files, but for the lock that this process holds."""
        paths = [p for p in self.directory.iterdir() if p.name != RUN_LOCK]
        # Parts are deleted before notes, and the origin last. So after a kill
        # each part that is left has its notes, and all have their origin.
        for path in sorted(
            paths, key=lambda path: (path.name == _ORIGIN, path.suffix)
        ):
            path.unlink()

    def _path(self, number: int) -> pathlib.Path:
        return self.directory / f"{number:08}"


@contextlib.contextmanager
def file_in_parts(
    path: AnyPath,
    origin: Mapping[str, Any],
    overwrite: bool = False,
    report: Callable[[str], object] = print,
) -> Iterator[Parts]:
    """Yields the parts of a file, which are joined at the end.

    Until then they are in the folder `path.parts`, with the inputs of the file
    in `origin.json`. After an error, an interrupt or a kill they stay there,
    and the next process only makes those that are missing.

    Args:
        path: The path of the file.
        origin: A dict of JSON values, the inputs of the file, with names for
            errors. Parts of other inputs are refused.
        overwrite: A boolean to indicate whether to delete old parts. Defaults
            to `False`.
        report: As for `lock_directory`.

    Raises:
        InputError: if there are parts with other or unknown inputs, or another
            process writes them.
    """
    path = _resolved(path)
    directory = path.with_name(f"{path.name}.parts")
    with contextlib.suppress(FileExistsError):
        directory.parent.mkdir(parents=True, exist_ok=True)
        # The file that is replaced may be private.
        directory.mkdir(0o700)
    parts = Parts(directory)
    try:
        with lock_directory(directory, report=report):
            _begin(parts, origin, overwrite)
            try:
                yield parts
                parts.join(path)
            except BaseException:
                if not len(parts):
                    parts.clear()
                raise
            parts.clear()
    finally:
        with contextlib.suppress(OSError):
            # If it is empty.
            directory.rmdir()


def _begin(parts: Parts, origin: Mapping[str, Any], overwrite: bool) -> None:
    """Records the inputs of new parts, or compares those of old ones."""
    path = parts.directory / _ORIGIN
    before = None
    try:
        before = read_json_object(path)
    except FileNotFoundError:
        # A file that was being written during a kill has a dot before its name.
        others = set(parts.directory.glob("[!.]*"))
        if others - {parts.directory / RUN_LOCK}:
            raise InputError(
                f"{parts.directory} has files but no {_ORIGIN}, so they are "
                "not of this command. Move them, or choose another output."
            ) from None
    except (OSError, ValueError) as error:
        if not overwrite:
            raise InputError(
                f"{path} cannot be read ({error}), so the origin of the parts "
                f"beside it is not known. {_WAY_OUT}"
            ) from error
    if before is not None and not overwrite:
        # In the form of the file, for the comparison.
        _check_same_inputs(
            before, json.loads(json.dumps(origin)), parts.directory
        )
        return
    parts.clear()
    write_json(path, origin)


def _check_same_inputs(
    before: Mapping[str, Any], now: Mapping[str, Any], directory: pathlib.Path
) -> None:
    """Refuses to resume parts with other inputs."""
    for name in {**now, **before}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        values = f" ({_shown(old)}, now {_shown(new)})"
        if len(values) > 60:  # Checksums do not help.
            values = ""
        raise InputError(
            f"{directory} was begun with another {name}{values}. Resume it "
            f"with the same. {_WAY_OUT}"
        )


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
