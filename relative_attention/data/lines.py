"""Reads text, line by line, from files and from streams."""

import contextlib
import dataclasses
import datetime
import functools
import gzip
import io
import itertools
import os
import pathlib
import time
import zlib
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
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
    file: Iterable[bytes],
    name: pathlib.Path | str,
    keep_mark: bool = False,
    first: int = 1,
) -> Iterator[str]:
    """Yields the lines of an open file, like `read_lines`.

    Args:
        file: binary file, or any iterable of lines in bytes, from its
            beginning.
        name: string or path. The name of the file in an error.
        keep_mark: A boolean to indicate whether to keep a byte order mark in
            the first line. Defaults to `False`.
        first: int. The number of the first line. Defaults to `1`.

    Raises:
        InputError: if a line is not UTF-8.
    """
    for number, line in enumerate(file, start=first):
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


def arriving_lines(
    file: io.BufferedReader, name: str, block_size: int = 1 << 17
) -> Iterator[list[str]]:
    """Yields the lines of a stream, in lists of those that came together.

    A line that comes alone is yielded at once; so a program may wait for an
    answer to each line, and another one may write all lines.

    Args:
        file: binary file, at its beginning.
        name: string. The name of the file in an error.
        block_size: int. The most bytes to read at once.

    Raises:
        InputError: if a line is not UTF-8.
    """
    num_lines, pieces = 0, []
    is_open = True
    while is_open:
        # Waits for the first byte, and returns what is there.
        block = file.read1(block_size)
        pieces.append(block)
        is_open = bool(block)
        if is_open and b"\n" not in block:
            continue
        *lines, rest = b"".join(pieces).split(b"\n")
        pieces = [rest]
        whole = [line + b"\n" for line in lines]
        if rest and not is_open:
            whole.append(rest)
        chunk = list(decode_lines(whole, name, first=num_lines + 1))
        num_lines += len(whole)
        if chunk:
            yield chunk


class LineProgress:
    """Describes the lines done, lines per second, and the time left.

    Args:
        total: int. The number of lines; `None` if unknown.
        num_before: int. The lines of an earlier process, which do not count
            for the speed.
        clock: function that returns seconds.
    """

    def __init__(
        self,
        total: int | None,
        num_before: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self._num_before = num_before
        self._clock = clock
        self._begin = clock()

    def line(self, num_done: int) -> str:
        """Returns the line to show after a number of lines."""
        if self.total is None:
            return f"{num_done:,} line{'s' * (num_done != 1)}"
        text = f"{num_done:,} of {self.total:,} lines"
        # Lines of an earlier process took none of this one's time.
        num_new = num_done - self._num_before
        if num_new <= 0:
            return text
        speed = num_new / max(self._clock() - self._begin, 1e-3)
        seconds = round((self.total - num_done) / speed)
        left = datetime.timedelta(seconds=seconds)
        digits = 1 if speed < 10 else 0
        return f"{text}, {speed:,.{digits}f} a second, {left} left"
