"""The progress line, the guard of updates, and signals."""

import io
import os
import signal
import threading
import types

import pytest

from relative_attention.runs.callbacks import FiniteGuard
from relative_attention.runs.callbacks import ProgressLine
from relative_attention.runs.callbacks import Speed
from relative_attention.runs.callbacks import StopSignals


class Number:
    """A number on a device: reading it waits for the device."""

    def __init__(self, value):
        self.value = value
        self.num_reads = 0

    def __float__(self):
        self.num_reads += 1
        return self.value


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    return clock


def with_rate(callback, learning_rate):
    """A callback of a model whose optimizer has this learning rate."""
    optimizer = types.SimpleNamespace(learning_rate=learning_rate)
    callback.set_model(types.SimpleNamespace(optimizer=optimizer))
    return callback


def make_line(is_terminal=False, num_steps=10, first_tokens=0.0, **arguments):
    """The callbacks that measure and show, as one; and what they write."""
    file = io.StringIO()
    file.isatty = lambda: is_terminal
    speed = with_rate(Speed(first_tokens), 0.25)
    line = ProgressLine(speed, 20, lambda: num_steps, file=file, **arguments)
    return Together(speed, line), file


class Together:
    """Calls callbacks in turn; Keras' list of them would read the logs."""

    def __init__(self, *callbacks):
        self._callbacks = callbacks

    def __getattr__(self, name):
        def call(*arguments):
            for callback in self._callbacks:
                getattr(callback, name)(*arguments)

        return call


LOGS = {
    "loss": 2.5,
    "perplexity": 12.25,
    "accuracy": 0.5,
    "tokens": 1000.0,
    "skipped": 0.0,
}


def test_line_shows_time_steps_and_metrics(clock):
    line, file = make_line()
    line.on_epoch_begin(0)
    clock.now = 102.0
    line.on_train_batch_end(9, dict(LOGS))
    line.on_epoch_end(
        0, {**LOGS, "val_loss": 2.25, "val_tokens": 9.0, "val_bleu": 31.256}
    )
    assert file.getvalue() == (
        "[##########          ] 0:00:02 left step 10/20 500 tokens/s "
        "loss 2.5 perplexity 12.25 accuracy 0.5 "
        "| validation loss 2.25 BLEU 31.26\n"
    )


def test_speed_excludes_first_step_and_validation(clock):
    line, file = make_line()
    line.on_epoch_begin(0)
    clock.now += 60.0  # compiles
    line.on_train_batch_end(0, {"tokens": 100.0})
    clock.now += 2.0
    line.on_train_batch_end(4, {"tokens": 500.0})
    line.on_test_begin()
    clock.now += 30.0  # validates
    logs = {"tokens": 500.0}
    line.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == pytest.approx(200.0)
    assert logs["learning_rate"] == 0.25
    # 10 steps at half a second.
    assert "0:00:05 left" in file.getvalue()
    line.on_epoch_begin(1)
    line.on_train_batch_end(0, {"tokens": 100.0})
    clock.now += 2.0
    line.on_train_batch_end(4, {"tokens": 500.0})
    line.on_epoch_end(1, {})
    # And two validations of 30 seconds.
    assert "0:01:05 left" in file.getvalue().split("\n")[-2]


def test_line_has_no_speed_when_a_round_only_validates(clock):
    line, file = make_line(num_steps=12)
    line.on_epoch_begin(0)
    line.on_test_begin()
    clock.now += 5.0
    logs = {**LOGS, "skipped": 2.0, "tokens_per_second": 9.0, "val_loss": 2.0}
    line.on_epoch_end(0, logs)
    # Of a run that was stopped in its validation and resumed.
    assert logs["tokens_per_second"] == 9.0
    assert file.getvalue().endswith(
        " step 12/20 loss 2.5 perplexity 12.25 accuracy 0.5 skipped 2 "
        "| validation loss 2\n"
    )


@pytest.mark.parametrize("num_steps", [1, 2])
def test_speed_excludes_tokens_before_a_resume(clock, num_steps):
    line, _ = make_line(first_tokens=900.0)
    line.set_params({"steps": num_steps})
    line.on_epoch_begin(0)
    logs = {}
    for batch in range(num_steps):
        assert "tokens_per_second" not in logs
        clock.now += 2.0
        logs = {"tokens": 1000.0 + 100.0 * batch}
        line.on_train_batch_end(batch, logs)
    # In the logs of the last step, too, with which a stopped run resumes.
    assert logs["tokens_per_second"] == 50.0


@pytest.mark.parametrize(
    ("is_terminal", "seconds", "shown"),
    # More than half a second lies between two lines, or a minute in a file.
    [(True, 0.2, [3, 6]), (False, 24.0, [3, 6])],
)
def test_logs_are_read_only_when_the_line_is_shown(
    is_terminal, seconds, shown, clock
):
    line, file = make_line(is_terminal=is_terminal)
    line.on_epoch_begin(0)
    numbers = [Number(2.5) for _ in range(8)]
    for batch, number in enumerate(numbers):
        line.on_train_batch_end(batch, {"loss": number, "tokens": 10.0})
        clock.now += seconds
    assert [n for n in range(8) if numbers[n].num_reads] == shown
    assert all(number.num_reads < 2 for number in numbers)
    assert file.getvalue().count("\r" if is_terminal else "\n") == 2


def test_bar_ends_where_the_time_limit_does(clock):
    line, file = make_line(num_steps=10, seconds_left=lambda: 4.0)
    line.on_epoch_begin(0)
    clock.now += 20.0
    line.on_train_batch_end(9, dict(LOGS))
    line.on_epoch_end(0, dict(LOGS))
    # Two updates more of the ten that are planned.
    assert "[################    ] 0:00:04 left step 10/~12 " in file.getvalue()


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (40, "0:00:10 left step 10/20 0 tokens/s loss"),
        (60, "0:00:10 left step 10/20 0 tokens/s loss 2.5 accuracy 0.5"),
    ],
)
def test_line_leaves_out_the_least_when_a_terminal_is_narrow(
    columns, text, clock, monkeypatch
):
    line, file = make_line(is_terminal=True)
    monkeypatch.setattr(
        "relative_attention.runs.callbacks._columns", lambda file: columns
    )
    line.on_epoch_begin(0)
    for batch in range(2):
        line.on_train_batch_end(batch, dict(LOGS))
        clock.now += 1.0
    assert file.getvalue() == f"\r{text}\x1b[K"


# === Updates that were not finite ===


def make_guard(first_step=0, first_skipped=0.0):
    file = io.StringIO()
    guard = FiniteGuard(
        "skip",
        first_step,
        lambda step: [4, 7],
        file=file,
        first_skipped=first_skipped,
    )
    with_rate(guard, 0.5).on_epoch_begin(0)
    return guard, file


def feed(guard, *skipped):
    for batch, number in enumerate(skipped):
        guard.on_train_batch_end(batch, {"skipped": number})


def test_skipped_updates_are_reported_once_with_their_lines():
    # Two updates were skipped, and reported, before the run was resumed.
    guard, file = make_guard(first_step=999, first_skipped=2.0)
    # Reading a number waits for the device: it is not done at each update.
    numbers = [Number(value) for value in (2.0, 3.0, 3.0, 4.0)]
    feed(guard, *numbers)
    assert file.getvalue() == ""
    assert not any(number.num_reads for number in numbers)
    guard.on_epoch_end(0)
    # The count begins again with each round.
    guard.on_epoch_begin(1)
    feed(guard, 1.0)
    guard.on_epoch_end(1)
    assert file.getvalue() == "".join(
        f"The loss or gradient of update {update} is not finite (learning "
        "rate 0.5; lines 4, 7 of the training text). Skipped.\n"
        for update in ("1,001", "1,003", "1,004")
    )


def test_guard_reads_all_logs_at_the_sixteenth_update():
    guard, file = make_guard()
    feed(guard, *[0.0] * 14, 1.0)
    assert file.getvalue() == ""
    guard.on_train_batch_end(15, {"skipped": 1.0})
    assert file.getvalue().count("update 15 ") == 1


# === Signals ===


@pytest.mark.parametrize(
    ("number", "exception", "code"),
    [
        (signal.SIGTERM, SystemExit, 143),
        (signal.SIGINT, KeyboardInterrupt, None),
    ],
    ids=str,
)
def test_first_signal_is_recorded_and_second_one_acts(number, exception, code):
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


def test_signals_are_ignored_in_another_thread():
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
