"""Files and folders that are whole or not there, whenever a process dies.

A file is written beside its name under a hidden one, and renamed when it is
complete. After a `kill -9` at any moment its name still leads to the old
content or to the new one. A folder takes two renames; `recover_directory`
finishes them where a process died in between. What a killed process was
writing stays behind under a hidden name. A `resumable_file` is for hours of
work, which the next process continues; that one deletes what was left behind.
"""

import contextlib
import glob
import json
import os
import pathlib
import secrets
import shutil
import socket
import stat
from collections.abc import Callable
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

# Endings of hidden folders: the old one between two renames, and what is being
# deleted.
_OLD = "-old"
_GONE = "-gone"

# In the folder of a run while a process writes it, and after a `kill -9`.
RUN_LOCK = "run.lock"


def check_is_free(output: AnyPath) -> None:
    """Raises `InputError` unless nothing, or an empty folder, is there."""
    output = pathlib.Path(output)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(
            f"{output} is there already. Choose another folder, or delete it."
        )


# === Files ===


@contextlib.contextmanager
def atomic_file(path: AnyPath, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a file that takes the name `path` only when it is complete.

    After an error, an interrupt or a full disk, what `path` was before is
    still there. A link stays, and leads to the new file, which has the
    permissions of the old one. Devices and pipes are written to directly.
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
            # At once: a private file stays private while it is written.
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
    """Reads a JSON object; raises as `read_json` does, or if it is none."""
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


# === Folders ===


@contextlib.contextmanager
def atomic_directory(path: AnyPath) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which is named `path` only when complete.

    It lies beside `path` until then. A folder that `path` named before is
    replaced; a link to it stays. A process that dies while replacing leaves
    one of the two, complete, for `recover_directory`.
    """
    path = _resolved(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    recover_directory(path)
    temporary = _hidden_beside(path)
    aside = temporary.with_name(temporary.name + _OLD)
    # A private folder stays private while it is written.
    mode = stat.S_IMODE(path.stat().st_mode) | 0o700 if path.exists() else 0o777
    temporary.mkdir(mode)
    try:
        with locked_directory(temporary):
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with open(file, "rb") as written:
                        os.fsync(written.fileno())
            # Last, as they may not allow writing.
            _copy_permissions(path, temporary)
            # A folder cannot be renamed over another. The old one steps aside,
            # so that at no moment there is half of either.
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
    """Puts back a folder whose writer died while replacing it.

    It died between the two renames of `atomic_directory`. The old folder has
    stepped aside, so the new one is complete, and takes the name. A writer
    that is still alive is waited for. Does nothing if nothing is to be put
    back, or the disk is read-only.
    """
    path = _resolved(path)
    if path.exists():
        return
    beside = path.parent / f".{glob.escape(path.name)}-????????{_OLD}"
    for name in sorted(glob.glob(str(beside))):
        aside = pathlib.Path(name)
        temporary = aside.with_name(aside.name.removesuffix(_OLD))
        with contextlib.suppress(OSError), locked_directory(temporary):
            if path.exists():
                return
            os.rename(temporary if temporary.exists() else aside, path)
            if aside.exists():
                delete_directory(aside)
            return


def delete_directory(path: AnyPath) -> None:
    """Deletes a folder, no half of which is ever found under its name.

    What cannot be deleted, such as a file that a network disk keeps while it
    is open, stays behind hidden. The rest of an earlier deletion goes too.
    """
    path = pathlib.Path(path)
    hidden = path.name.lstrip(".").removesuffix(_OLD)
    gone = path.with_name(f".{hidden}{_GONE}")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rename(path, gone)
    shutil.rmtree(gone, ignore_errors=True)
    # Where the rest of an earlier deletion was in the way.
    shutil.rmtree(path, ignore_errors=True)


def _resolved(path: AnyPath) -> pathlib.Path:
    """Returns where links lead, whether or not something is there."""
    return pathlib.Path(os.path.realpath(path))


def _hidden_beside(path: pathlib.Path) -> pathlib.Path:
    """Returns a new hidden name, as `recover_directory` looks for it."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}")


def _copy_permissions(path: pathlib.Path, new: pathlib.Path) -> None:
    """Gives `new` the permissions of what it replaces, if that is there."""
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

    A job that is queued again while its first process is still alive would
    delete that process' checkpoints. The lock also keeps out processes on
    other machines.

    Args:
        directory: The path of the run; made if it is not there. A file is
            left for the caller to refuse.
        writes: A boolean to indicate whether this process writes; of several
            machines only the chief does, and takes the lock.
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

    def warn(error: OSError) -> None:
        report(
            f"{directory} cannot be locked ({error}): see to it that no other "
            "process trains there."
        )

    file = _open_locked(path, warn)
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
            # While it is locked: afterwards it may be another process' file.
            with contextlib.suppress(OSError):
                path.unlink()
                if is_new:
                    # Of a run that was refused nothing stays.
                    directory.rmdir()


def _open_locked(
    path: pathlib.Path, on_no_locks: Callable[[OSError], object]
) -> BinaryIO | None:
    """Opens a file and locks it, or returns `None` if another process has."""
    while True:
        # Makes the file, or keeps its content.
        file = open(path, "a+b")
        try:
            is_locked = lock_file(file.fileno())
        except OSError as error:
            on_no_locks(error)
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
    """Holds the lock of a folder, waiting for it, where there are locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            lock_file(descriptor, wait=True)
        yield


# === Long files that the next process continues ===


class ResumableFile:
    """A file that grows in steps, each of which outlives the process.

    Attributes:
        counts: dict of ints. What the caller counts in the file, as of the
            last step that was kept.
    """

    def __init__(
        self,
        file: BinaryIO,
        journal: pathlib.Path,
        origin: Mapping[str, Any],
        counts: Mapping[str, int],
    ) -> None:
        self.counts = dict(counts)
        self.was_kept = False
        self._file = file
        self._journal = journal
        self._origin = origin

    def write(self, data: bytes) -> None:
        """Writes bytes, which count from the next `keep` on."""
        self._file.write(data)

    def keep(self, **counts: int) -> None:
        """Makes sure that what is written so far is never lost.

        Args:
            **counts: ints. What is in the file now.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        self._enter(counts)
        self.counts = counts
        self.was_kept = True

    def cut(self, num_bytes: int) -> None:
        """Cuts the file to the length that it had with `counts`."""
        self._file.truncate(num_bytes)
        self._file.seek(num_bytes)
        self._enter(self.counts)

    def _enter(self, counts: Mapping[str, int]) -> None:
        record = {
            "bytes": self._file.tell(),
            "counts": counts,
            "origin": self._origin,
        }
        with atomic_file(self._journal, "w") as file:
            json.dump(record, file, indent=1)


@contextlib.contextmanager
def resumable_file(
    path: AnyPath,
    origin: Mapping[str, Any],
    counts: Mapping[str, int],
    overwrite: bool = False,
) -> Iterator[ResumableFile]:
    """Opens a file to write, where the last process that did so ended.

    Two files lie beside `path` until the whole takes its name: `.partial`,
    what is written so far, locked while a process writes it; and `.journal`,
    JSON on what it is made of and how much of it counts. What a process wrote
    after its last `keep`, perhaps half a line, is cut off by the next one.
    After an error, an interrupt or a kill both stay, if anything was kept.

    Args:
        path: path of the file.
        origin: dict of JSON values. What the file is made of, by the names
            that an error uses. A partial file is continued only if all of
            them are the same.
        counts: dict of ints. What `ResumableFile.counts` is at the beginning.
        overwrite: bool. Whether to start again. Defaults to `False`.

    Yields:
        `ResumableFile`.

    Raises:
        InputError: if the partial file is made of something else, which is
            named, or of something unknown; or if another process writes it.
    """
    path = _resolved(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    journal = path.with_name(f"{path.name}.journal")
    # As a comparison with the journal sees it.
    origin = json.loads(json.dumps(origin))
    # A network disk without locks is used without.
    file = _open_locked(partial, lambda error: None)
    if file is None:
        raise InputError(
            f"Another process is writing {partial}. Wait until it has ended, "
            "or end it, and try again; or choose another output."
        )
    with file:
        # What a process left that was killed while it wrote the journal.
        beside = f".{glob.escape(journal.name)}-????????"
        for left in path.parent.glob(beside):
            left.unlink(missing_ok=True)
        record = None if overwrite else _read_record(partial, journal)
        if record is not None:
            _check_same(record["origin"], origin, partial)
            counts = record["counts"]
        opened = ResumableFile(file, journal, origin, counts)
        _copy_permissions(path, partial)
        try:
            opened.cut(0 if record is None else record["bytes"])
            yield opened
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":
                # There, no file that is open can be renamed.
                file.close()
            os.replace(partial, path)
            journal.unlink()
        except BaseException:
            if record is None and not opened.was_kept:
                partial.unlink(missing_ok=True)
                journal.unlink(missing_ok=True)
            raise


def _read_record(
    partial: pathlib.Path, journal: pathlib.Path
) -> dict[str, Any] | None:
    """Returns what the journal says, or `None` if nothing was begun."""
    size = partial.stat().st_size
    if not size:
        # The journal may be left by a process that died when it was done.
        return None
    try:
        record = read_json_object(journal)
        fits = (
            isinstance(record["origin"], dict)
            and all(type(n) is int for n in record["counts"].values())
            and 0 <= record["bytes"] <= size
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise InputError(
            f"{partial} has been begun, but {journal} is missing, damaged or "
            f"of something else, so it cannot be resumed. {_WAY_OUT}"
        )
    return record


def _check_same(
    before: Mapping[str, Any], now: Mapping[str, Any], partial: pathlib.Path
) -> None:
    """Refuses to continue a file that is made of something else."""
    for name in {**now, **before}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        values = f" ({_shown(old)}, now {_shown(new)})"
        if len(values) > 60:  # Checksums say nothing.
            values = ""
        raise InputError(
            f"{partial} was begun with another {name}{values}. Resume it with "
            f"the same. {_WAY_OUT}"
        )


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


_WAY_OUT = "Or pass `--overwrite` to start again, or choose another output."
