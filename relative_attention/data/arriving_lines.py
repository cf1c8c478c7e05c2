"""Lines of a stream whose writer may be slow."""

import os
import select
import time


class ArrivingLines:
    """Yields the lines of a binary file, and says whether more have come.

    What was written by a program comes as fast as it is read; what is asked
    of a service line by line comes when the last answer has been read.

    Args:
        file: binary file. Of one without a descriptor every line counts as
            there already.
    """

    def __init__(self, file):
        self._pending = []
        self._file = file
        try:
            self._descriptor = file.fileno()
        except OSError:
            self._descriptor = None
        if os.name == "nt":
            # `select` knows sockets alone there.
            self._descriptor = None
        self._rest = b""
        self._has_ended = False

    def __iter__(self):
        return self

    def __next__(self):
        if self._descriptor is None:
            return next(self._file)
        while not self._pending and not self._has_ended:
            self._read()
        if not self._pending:
            raise StopIteration
        return self._pending.pop()

    def is_ready(self, seconds):
        """Whether a line, or the end, is there or comes in that time."""
        if self._descriptor is None:
            return True
        end = time.monotonic() + seconds
        while not self._pending and not self._has_ended:
            rest = max(end - time.monotonic(), 0)
            if not select.select([self._descriptor], [], [], rest)[0]:
                return False
            # It may be part of a line.
            self._read()
        return True

    def _read(self):
        """Take what is there; wait if nothing is."""
        block = os.read(self._descriptor, 1 << 16)
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._pending = [line + b"\n" for line in reversed(lines)]
        if not block:
            self._has_ended = True
            if self._rest:
                self._pending = [self._rest]
