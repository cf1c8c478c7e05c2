"""Signals that tell a run to stop, which it then does in good order."""

import signal
import threading
from types import FrameType
from typing import Any
from typing import NoReturn
from typing import Self

# Ctrl-C, and what schedulers send before they kill.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Notes SIGINT and SIGTERM instead of dying at once.

    A context manager; the signals' handlers are put back at its end. Only the
    first signal is noted: a second one acts as it did before, so that nobody
    has to wait for what hangs. In a thread other than the main one, where
    Python has no signals, it does nothing.

    Attributes:
        received: `signal.Signals`, or `None`.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        self._put_back()

    def leave(self) -> NoReturn:
        """Does what the signal received would have done."""
        self._put_back()
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        # 128 + n is how shells tell of a signal n.
        raise SystemExit(128 + (self.received or 0))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._put_back()

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
