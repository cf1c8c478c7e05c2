"""The memory of processes, on Linux."""

import threading

# Seconds between two looks at the memory.
_TICK = 0.02


class PeakMemory:
    """Watches the anonymous memory of this process while a context is open.

    The pages of mapped files are not counted: the system takes them back
    when it needs them.

    Attributes:
        peak: An integer, the most bytes that were seen.
    """

    def __enter__(self) -> "PeakMemory":
        self.peak = anonymous_memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(_TICK):
            self.peak = max(self.peak, anonymous_memory())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_memory())


def anonymous_memory() -> int:
    """Returns the bytes that belong to this process alone.

    Raises:
        OSError: If the system does not say, as those other than Linux.
    """
    return _status_bytes("self", "RssAnon")


def largest_resident_set(process: int) -> int:
    """Returns the most bytes that a process had in memory so far.

    Args:
        process: An integer, its number.

    Raises:
        OSError: As `anonymous_memory`.
    """
    return _status_bytes(str(process), "VmHWM")


def _status_bytes(process: str, field: str) -> int:
    path = f"/proc/{process}/status"
    with open(path) as file:
        for line in file:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    raise OSError(f"{path} does not say {field}")
