"""Reads text, line by line, from files and from streams."""

import contextlib
import dataclasses
import functools
import gzip
import itertools
import os
import pathlib
import select
import time
import zlib
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import BinaryIO
from typing import TypeVar

from relative_attention.errors import InputError

# Editors on Windows begin a file with it.
_BYTE_ORDER_MARK = "\ufeff"


def read_lines(path: pathlib.Path | str) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, without their ends.

    Lines end with `\\n` or `\\r\\n` only. Unicode's other line breaks are text,
    as in every tool that aligns corpora by line. A byte order mark at the
    beginning is not part of the text.

    Args:
        path: string or path. A file whose name ends in `.gz` is decompressed.

    Raises:
        InputError: if the file is missing, is not UTF-8 (naming the line), or
            is cut short or damaged.
    """
    opening: Any = gzip.open if str(path).endswith(".gz") else open
    try:
        with opening(path, "rb") as file:
            yield from decode_lines(file, path)
    except FileNotFoundError as error:
        raise InputError(f"No such file: {path}.") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder, not a text file.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path} cannot be decompressed: it is cut short, damaged or not "
            f"a gzip file ({error})."
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


def decode_lines(
    file: Iterable[bytes], name: pathlib.Path | str, keep_mark: bool = False
) -> Iterator[str]:
    """Yields the lines of an open file, like `read_lines`.

    Args:
        file: binary file, or any iterable of lines in bytes, from its
            beginning.
        name: string or path. The name of the file in an error.
        keep_mark: A boolean to indicate whether to keep a byte order mark in
            the first line. Defaults to `False`.

    Raises:
        InputError: if a line is not UTF-8.
    """
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}, line {number}: not valid UTF-8 (byte "
                f"{error.start + 1} of the line is "
                f"0x{line[error.start]:02x}). Convert the file, with "
                "`iconv -t UTF-8` for example."
            ) from error
        if number == 1 and not keep_mark:
            text = text.removeprefix(_BYTE_ORDER_MARK)
            if not text:
                # A file with only the mark has no lines.
                return
        yield text.removesuffix("\n").removesuffix("\r")


def count_lines(path: pathlib.Path | str) -> int:
    """Returns the number of lines of a text file, and checks all of it.

    A file is read only once, unless its size or modification time changes.

    Args:
        path: string or path, as for `read_lines`.

    Raises:
        InputError: as `read_lines`.
    """
    stamp = None
    # If there is no file, reading it raises the right error.
    with contextlib.suppress(OSError):
        stat = os.stat(path)
        stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return _count_lines(path, stamp)


@functools.lru_cache(maxsize=64)
def _count_lines(path: pathlib.Path | str, stamp: Hashable) -> int:
    """Counts the lines of a file; the stamp is a key of the cache."""
    return sum(1 for _ in read_lines(path))


def find_text_file(path: pathlib.Path | str) -> str | None:
    """Returns `path` or `path.gz`, whichever exists, or `None`."""
    for candidate in (str(path), f"{path}.gz"):
        if os.path.isfile(candidate):
            return candidate
    return None


_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True)
class ParallelCorpus:
    """Reads pairs of lines that are translations of each other.

    Attributes:
        source: string. Path of the source text, plain or `.gz`.
        target: string. Path of the target text, whose line `n` translates
            line `n` of the source.
    """

    source: str
    target: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields each `(source, target)` pair of lines, empty ones too."""
        return zip(read_lines(self.source), read_lines(self.target))

    def check(self) -> int:
        """Reads both files once, and checks that they have the same lines.

        Returns:
            int. Number of pairs.

        Raises:
            InputError: if a file is missing, a pipe, damaged or not UTF-8, if
                their numbers of lines differ, or if there is no line.
        """
        for path in (self.source, self.target):
            if pathlib.Path(path).is_fifo():
                raise InputError(
                    f"{path} is a pipe, which can only be read once. Give a "
                    "file, plain or .gz."
                )
        counts = [count_lines(path) for path in (self.source, self.target)]
        if counts[0] != counts[1]:
            raise InputError(
                "The two files must have a line for each other's lines. "
                f"Received: {self.source} with {counts[0]:,} lines, "
                f"{self.target} with {counts[1]:,}."
            )
        if counts[0] == 0:
            raise InputError(
                f"{self.source} and {self.target} are empty: there must be a "
                "line in each."
            )
        return counts[0]


def batched(iterable: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yields the items of an iterable as lists of up to `size` items."""
    iterator = iter(iterable)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


class ArrivingLines:
    """Iterates over the lines of a binary file, and tells if more are ready.

    Some programs write all lines at once. Others write a line and wait for the
    answer. `is_ready` distinguishes them, so that all lines that are ready can
    be translated as one batch.

    Args:
        file: binary file. All lines of a file without a descriptor, such as
            one in memory, count as ready.
    """

    def __init__(self, file: BinaryIO) -> None:
        # Lines that were read, in reverse order.
        self._pending: list[bytes] = []
        self._file = file
        try:
            self._descriptor: int | None = file.fileno()
        except OSError:
            self._descriptor = None
        if os.name == "nt":
            # On Windows, `select` only accepts sockets.
            self._descriptor = None
        # The part of an incomplete line that was read.
        self._rest = b""
        self._has_ended = False

    def __iter__(self) -> "ArrivingLines":
        return self

    def __next__(self) -> bytes:
        """Returns the next line, with its end; waits for it."""
        if self._descriptor is None:
            return next(self._file)
        while not self._pending and not self._has_ended:
            self._read(self._descriptor)
        if not self._pending:
            raise StopIteration
        return self._pending.pop()

    def is_ready(self, seconds: float) -> bool:
        """Waits for a line or the end; returns whether there is a line."""
        if self._descriptor is None:
            return True
        end = time.monotonic() + seconds
        while not self._pending and not self._has_ended:
            rest = max(end - time.monotonic(), 0)
            if not select.select([self._descriptor], [], [], rest)[0]:
                return False
            # If this is only a part of a line, wait for the rest.
            self._read(self._descriptor)
        return True

    def _read(self, descriptor: int) -> None:
        """Reads what is ready; waits if nothing is."""
        block = os.read(descriptor, 1 << 16)
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._pending = [line + b"\n" for line in reversed(lines)]
        if not block:
            self._has_ended = True
            if self._rest:
                self._pending = [self._rest]
