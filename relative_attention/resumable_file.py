"""Writes a long file with which a process that was killed goes on.

`NAME.partial`   what is written so far; locked while a process writes it
`NAME.journal`   JSON: what it is made of, and how much of it counts

Both lie beside `NAME`, which keeps what it was before until one rename gives it
the whole. What a process wrote after it last entered something in the journal,
perhaps half a line, is cut off by the next that goes on.
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import BinaryIO

from relative_attention.atomic_files import AnyPath
from relative_attention.atomic_files import replace_file
from relative_attention.atomic_files import resolved_path
from relative_attention.atomic_files import set_permissions
from relative_attention.errors import InputError
from relative_attention.file_lock import lock_file
from relative_attention.json_file import read_json_object

# Of the journal, while it is written anew.
_NEW = ".journal-new"


class ResumableFile:
    """A file that grows in steps, each of which is kept whatever comes.

    Args:
        file: binary file. The partial one, at its end.
        journal: path of the journal.
        origin: dict. What the file is made of, as JSON has it.
        counts: dict of ints. What the caller counts in the file.

    Attributes:
        counts: dict of ints, as of the last step that was kept.
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
        """Sees to it that no death loses what is written so far.

        Args:
            **counts: ints. What is in the file now.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        self._enter(counts)
        self.counts = counts
        self.was_kept = True

    def cut(self, num_bytes: int) -> None:
        """Goes back to where the file had this length, and `counts`.

        Args:
            num_bytes: int. The length.
        """
        self._file.truncate(num_bytes)
        self._file.seek(num_bytes)
        self._enter(self.counts)

    def _enter(self, counts: Mapping[str, int]) -> None:
        record = {
            "bytes": self._file.tell(),
            "counts": counts,
            "origin": self._origin,
        }
        # Whoever holds the lock is alone; what a death leaves of it, the next
        # one overwrites.
        new = self._journal.with_suffix(_NEW)
        with open(new, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._journal)


@contextlib.contextmanager
def resumable_file(
    path: AnyPath,
    origin: Mapping[str, Any],
    counts: Mapping[str, int],
    overwrite: bool = False,
) -> Iterator[ResumableFile]:
    """Opens a file to write, where the last process that did so ended.

    When all is done it takes the name `path`. After an error, an interrupt or
    a kill the partial file and its journal stay, if anything was kept.

    Args:
        path: path of the file.
        origin: dict of values that JSON has. What the file is made of, by the
            names that an error has for it: what has begun is gone on with
            only where all of them are the same.
        counts: dict of ints. What `ResumableFile.counts` is at the beginning.
        overwrite: bool. Whether to begin anew. Defaults to `False`.

    Yields:
        `ResumableFile`.

    Raises:
        InputError: if what has begun is made of something else, which is
            named; if it is not known of what; or if another process writes.
    """
    path = resolved_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, journal = (
        path.with_name(path.name + ending)
        for ending in (".partial", ".journal")
    )
    # What a comparison with the journal sees.
    origin = json.loads(json.dumps(origin))
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_open_locked(partial))
        record = None if overwrite else _record(file, partial, journal)
        if record is not None:
            _check_same(record["origin"], origin, partial)
            counts = record["counts"]
        opened = ResumableFile(file, journal, origin, counts)
        set_permissions(partial, path, 0o666)
        try:
            opened.cut(0 if record is None else record["bytes"])
            yield opened
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":
                # There, no file that is open can be renamed.
                file.close()
            replace_file(partial, path)
            journal.unlink()
        except BaseException:
            if record is None and not opened.was_kept:
                for rest in (partial, journal, journal.with_suffix(_NEW)):
                    rest.unlink(missing_ok=True)
            raise


def _open_locked(partial: pathlib.Path) -> BinaryIO:
    """Returns a partial file, which this process has locked, or is new."""
    while True:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT, 0o666)
        file = open(descriptor, "r+b")
        # A network disk may have no locks; it is used without then.
        with contextlib.suppress(OSError):
            if not lock_file(descriptor):
                file.close()
                raise InputError(
                    f"Another process is writing {partial}. Wait until it has "
                    "ended, or end it, and try again; or choose another "
                    "output."
                )
        # Who held the lock before may have renamed or deleted the file.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(partial)):
                return file
        file.close()


def _record(
    file: BinaryIO, partial: pathlib.Path, journal: pathlib.Path
) -> dict[str, Any] | None:
    """Returns what the journal says, or `None` if nothing has begun."""
    size = os.fstat(file.fileno()).st_size
    if not size:
        # The journal may be left of a process that died when it was done.
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
            f"of something else, so that it cannot be gone on with. {_WAY_OUT}"
        )
    return record


def _check_same(
    before: Mapping[str, Any], now: Mapping[str, Any], partial: pathlib.Path
) -> None:
    """Refuses to go on with a file that is made of something else."""
    for name in {**now, **before}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        values = f" ({_shown(old)}, now {_shown(new)})"
        # Checksums say nothing.
        if len(values) > 60:
            values = ""
        raise InputError(
            f"{partial} was begun with another {name}{values}. Go on with the "
            f"same. {_WAY_OUT}"
        )


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


_WAY_OUT = "Or pass `--overwrite` to begin anew, or choose another output."
