"""Reads JSON files that somebody else may have written."""

import json
import os
import stat
from typing import Any

# More than any vocabulary or history takes.
_MAX_BYTES = 2**28


def read_json_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a JSON object; see `read_json`.

    Returns:
        Dict.

    Raises:
        OSError: as `read_json`.
        ValueError: as `read_json`, or if it holds no object.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(
            f"it must hold a JSON object, and holds {type(content).__name__}"
        )
    return content


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a JSON file, with or without a byte order mark.

    Args:
        path: path of the file.

    Returns:
        What it holds.

    Raises:
        OSError: if there is no such file, or it cannot be read.
        ValueError: if it is not JSON; also if it is no regular file or takes
            more than 256 MiB, which a folder that was downloaded may hide
            behind a link.
    """
    try:
        return json.loads(read_regular_file(path).decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_regular_file(path: str | os.PathLike[str]) -> bytes:
    """Returns the bytes of a file, unless it is a device or a pipe.

    Links are followed: Hugging Face's cache is made of them.

    Raises:
        OSError: if there is no such file, or it cannot be read.
        ValueError: if it is no regular file (a device has no end), or takes
            more than 256 MiB.
    """
    # Without waiting for whoever may write to a pipe.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > _MAX_BYTES:
            raise ValueError(f"it takes more than {_MAX_BYTES / 2**20:.0f} MiB")
        return file.read()
