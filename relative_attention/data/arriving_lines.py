"""Reads lines from a stream whose writer may be slow."""

import os
import select
import time
from typing import BinaryIO


class ArrivingLines:
    """Iterates over the lines of a binary file, and tells if more are there.

    A program may write all its lines at once; another may write a line only
    when it has read the answer to the one before. `is_ready` tells the two
    apart, so that lines that are there can be translated as one batch.

    Args:
        file: binary file. If it has no descriptor, as one in memory, all its
            lines count as being there.
    """

    def __init__(self, file: BinaryIO) -> None:
        # Lines that have been read, the last one first.
        self._pending: list[bytes] = []
        self._file = file
        try:
            self._descriptor: int | None = file.fileno()
        except OSError:
            self._descriptor = None
        if os.name == "nt":
            # There, `select` takes sockets alone.
            self._descriptor = None
        # The part of a line that has been read, whose end has not.
        self._rest = b""
        self._has_ended = False

    def __iter__(self) -> "ArrivingLines":
        return self

    def __next__(self) -> bytes:
        """Returns the next line, with its end; waits until it is there."""
        if self._descriptor is None:
            return next(self._file)
        while not self._pending and not self._has_ended:
            self._read(self._descriptor)
        if not self._pending:
            raise StopIteration
        return self._pending.pop()

    def is_ready(self, seconds: float) -> bool:
        """Returns whether a line, or the end of the file, is there.

        Args:
            seconds: float. How long to wait for it.
        """
        if self._descriptor is None:
            return True
        end = time.monotonic() + seconds
        while not self._pending and not self._has_ended:
            rest = max(end - time.monotonic(), 0)
            if not select.select([self._descriptor], [], [], rest)[0]:
                return False
            # Only a part of a line may have come: then it waits on.
            self._read(self._descriptor)
        return True

    def _read(self, descriptor: int) -> None:
        """Reads what is there; waits if nothing is."""
        block = os.read(descriptor, 1 << 16)
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._pending = [line + b"\n" for line in reversed(lines)]
        if not block:
            self._has_ended = True
            if self._rest:
                self._pending = [self._rest]
