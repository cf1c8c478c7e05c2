"""Signals are noted once, and done in good order."""

import os
import signal
import threading

import pytest

from relative_attention.training import StopSignals


@pytest.mark.parametrize(
    ("number", "exception", "code"),
    [
        (signal.SIGTERM, SystemExit, 143),
        (signal.SIGINT, KeyboardInterrupt, None),
    ],
    ids=str,
)
def test_signal_is_noted_and_then_obeyed(number, exception, code):
    before = signal.getsignal(number)
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), number)
        assert signals.received == number
        # A second one is not waited for.
        assert signal.getsignal(number) == before
        with pytest.raises(exception) as raised:
            signals.leave()
    assert getattr(raised.value, "code", None) == code
    assert signal.getsignal(number) == before


def test_handlers_are_put_back_when_nothing_comes():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [
        signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)
    ] == before


def test_nothing_happens_in_another_thread():
    failures = []

    def enter():
        try:
            with StopSignals() as signals:
                assert signals.received is None
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not failures
