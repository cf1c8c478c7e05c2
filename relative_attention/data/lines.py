"""Reads the lines of text files, plain or compressed with gzip."""

import codecs
import contextlib
import functools
import gzip
import os
import pathlib
import zlib
from collections.abc import Iterable
from collections.abc import Iterator
from typing import BinaryIO

from relative_attention.errors import InputError

_BLOCK = 1 << 20
# Editors on Windows begin a file with it.
_BYTE_ORDER_MARK = "\ufeff"


def read_lines(path: pathlib.Path | str) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, without their ends.

    Lines end with `\\n` or `\\r\\n` and with nothing else: Unicode's other line
    breaks are text, as they are to every tool that aligns corpora by line. A
    byte order mark at the beginning is no part of the text.

    Args:
        path: string or path. A file whose name ends in `.gz` is decompressed.

    Raises:
        InputError: if the file is missing, is not UTF-8 (naming the line), or
            is cut short or damaged.
    """
    with _opened(path) as file:
        yield from decode_lines(file, path)


@contextlib.contextmanager
def _opened(path: pathlib.Path | str) -> Iterator[gzip.GzipFile | BinaryIO]:
    """Opens a file to read its bytes, decompressed.

    All errors in opening and reading it become an `InputError`.
    """
    try:
        if str(path).endswith(".gz"):
            with gzip.open(path, "rb") as compressed:
                yield compressed
        else:
            with open(path, "rb") as file:
                yield file
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
    """Yields the lines of a file that is open already, like `read_lines`.

    Args:
        file: binary file, or any iterable of lines in bytes, from its
            beginning on.
        name: string or path. The name of the file in an error.
        keep_mark: A boolean to indicate whether a byte order mark is left in
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
                # The mark stands alone, in a file without lines.
                return
        yield text.removesuffix("\n").removesuffix("\r")


def count_lines(path: pathlib.Path | str) -> int:
    """Returns the number of lines of a text file, and checks all of it.

    A file is read only once, unless its size or time of change is another.

    Args:
        path: string or path, as for `read_lines`.

    Raises:
        InputError: as `read_lines`.
    """
    try:
        stat = os.stat(path)
    except OSError:
        # The error of reading it tells what is wrong.
        return sum(1 for _ in read_lines(path))
    return _count_lines(os.path.abspath(path), stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _count_lines(path: str, size: int, time: int) -> int:
    """Counts the lines of a file; size and time are there for the cache."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    count = 0
    block = last = b""
    is_first = True
    try:
        with _opened(path) as file:
            while block := file.read(_BLOCK):
                decoder.decode(block)
                if is_first:
                    block = block.removeprefix(codecs.BOM_UTF8)
                    is_first = False
                count += block.count(b"\n")
                last = block[-1:]
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        # Reading line by line is slow, but its error names the line.
        return sum(1 for _ in read_lines(path))
    return count + (last not in (b"", b"\n"))


def find_text_file(path: pathlib.Path | str) -> str | None:
    """Returns `path` or `path.gz`, whichever exists, or `None`."""
    for candidate in (str(path), f"{path}.gz"):
        if os.path.isfile(candidate):
            return candidate
    return None
