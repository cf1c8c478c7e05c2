"""Lines of text files, plain or compressed with gzip."""

import codecs
import contextlib
import functools
import gzip
import os
import zlib

from relative_attention.errors import InputError

_BLOCK = 1 << 20
# What Windows' editors begin a file with.
_BYTE_ORDER_MARK = "\ufeff"


def read_lines(path):
    """Yield the lines of a UTF-8 text file, without their ends.

    Lines end with `\\n` or `\\r\\n` and with nothing else: Unicode's other line
    breaks are text, as they are to every tool that aligns corpora by line. A
    byte order mark at the beginning is no part of the text.

    Args:
        path: string or path. A name that ends in `.gz` is decompressed.

    Raises:
        InputError: if the file is missing, is not UTF-8 (naming the line), or
            is cut short or damaged.
    """
    with _opened(path) as file:
        yield from decode_lines(file, path)


@contextlib.contextmanager
def _opened(path):
    """A file to read bytes from, decompressed; its errors are `InputError`."""
    opened = gzip.open if str(path).endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
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


def decode_lines(file, name, keep_mark=False):
    """Yield the lines of a file that is open already, like `read_lines`.

    Args:
        file: binary file, or any iterable of lines in bytes, from its
            beginning on.
        name: what to call the file in an error.
        keep_mark: bool. Whether a byte order mark is left in the first line.
            Defaults to `False`.

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
                # The mark alone: a file without lines.
                return
        yield text.removesuffix("\n").removesuffix("\r")


def count_lines(path):
    """Number of lines of a text file; also checks all of it.

    A file is read once, unless it changes (size, time).

    Raises:
        InputError: as `read_lines`.
    """
    try:
        stat = os.stat(path)
    except OSError:
        # Reading it says what is wrong.
        return sum(1 for _ in read_lines(path))
    return _count_lines(os.path.abspath(path), stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _count_lines(path, size, time):
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
        # Reading line by line, which is slow, says which one it is.
        return sum(1 for _ in read_lines(path))
    return count + (last not in (b"", b"\n"))


def find_text_file(path):
    """`path` or `path.gz`, whichever exists, or `None`."""
    for candidate in (str(path), f"{path}.gz"):
        if os.path.isfile(candidate):
            return candidate
    return None
