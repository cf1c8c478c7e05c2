"""Callbacks of `fit`, and signals that stop a run cleanly.

An epoch of `fit` is a round here: the updates between two validations, and the
second validation.
"""

import datetime
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence
from types import FrameType
from typing import Any
from typing import NoReturn
from typing import Self
from typing import TextIO

import keras

from relative_attention.errors import InputError

_BAR_LENGTH = 20


class Speed(keras.callbacks.Callback):
    """Measures the speed of training, and adds it to the logs of each round.

    `tokens_per_second` comes from the metric `tokens` of `Transformer`, and
    excludes the first step of a round, which compiles. `learning_rate` is that
    of the next update. Callbacks that show or record them stand behind this
    one.

    Args:
        first_tokens: float. Tokens that a resumed round counted before it was
            stopped. Defaults to `0.0`.

    Attributes:
        step: The steps done in this round.
        round_steps: The steps of the last round.
        validation_seconds: The time of the last validation.
    """

    def __init__(self, first_tokens: float = 0.0) -> None:
        super().__init__()
        self.step = 0
        # Before the first validation ends, no round was timed.
        self.round_steps = 1
        self.validation_seconds = 0.0
        self._first_tokens = first_tokens
        self._training_end: float | None = None

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Starts the clock of the round."""
        now = time.perf_counter()
        if self._training_end is not None:
            self.validation_seconds = now - self._training_end
        self._training_end = None
        # The last step and its logs, still on the device.
        self.step, self._logs = 0, dict[str, Any]()
        # Steps, tokens and time: at the start, after the first step, and now.
        self._marks = [(0, self._first_tokens, now)]
        self._first_tokens = 0.0

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Counts a step; ends the training of the round after the last."""
        self.step, self._logs = batch + 1, {} if logs is None else logs
        # The first step compiles: its time is not counted.
        if len(self._marks) == 1:
            self.measure()
        if self.step == (self.params or {}).get("steps"):
            # A run that is stopped during validation resumes with these logs.
            self._end_training()
            self._logs["tokens_per_second"] = self.per_second()[1]

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Stops the clock of the round."""
        self._end_training()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Adds what was measured to the logs of the round."""
        logs = {} if logs is None else logs
        self._end_training()
        # A resumed round that only validates has no speed.
        if self.step:
            logs["tokens_per_second"] = self.per_second()[1]
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)

    def measure(self) -> None:
        """Reads the tokens and the clock, unless that is done already."""
        # Reading twice would wait for the device twice.
        if self.step == self._marks[-1][0]:
            return
        # Reading a number waits for the device, so the time is read after it.
        tokens = float(self._logs.get("tokens", 0.0))
        # Only the last mark is replaced; the first two stay for the round.
        self._marks[2:] = [(self.step, tokens, time.perf_counter())]

    def per_second(self) -> tuple[float, float]:
        """Returns steps and tokens per second, when last measured."""
        steps, tokens, seconds = (
            last - first for first, last in zip(*self._marks[-2:])
        )
        return steps / max(seconds, 1e-9), tokens / max(seconds, 1e-9)

    def _end_training(self) -> None:
        if self.step and self._training_end is None:
            self.measure()
            self._training_end = self._marks[-1][2]
            self.round_steps = self.step


class ProgressLine(keras.callbacks.Callback):
    """Shows the time left, steps, loss, perplexity, accuracy and tokens/s.

    On a terminal the line is rewritten during training; elsewhere a line is
    written every minute. At the end of a round the line also has the results
    of its validation. The time left includes the remaining validations, each as
    long as the last one, and is at most what `seconds_left` returns.

    Args:
        speed: `Speed`, which stands before this in the list of callbacks.
        total_steps: int. Steps of the whole training.
        num_steps: function without arguments that returns the number of
            steps done.
        file: where to write. Defaults to standard error.
        seconds_left: function without arguments that returns the seconds left
            of a time limit, or `None` for no limit. Defaults to no limit.
    """

    def __init__(
        self,
        speed: Speed,
        total_steps: int,
        num_steps: Callable[[], int],
        file: TextIO | None = None,
        seconds_left: Callable[[], float | None] = lambda: None,
    ) -> None:
        super().__init__()
        self.speed = speed
        self.total_steps = total_steps
        self.seconds_left = seconds_left
        self.file = file or sys.stderr
        self.num_steps = num_steps
        # A file would keep every line that a terminal replaces.
        self._rewrites = self.file.isatty()
        self._seconds_between = 0.5 if self._rewrites else 60.0

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Shows nothing at once, as there is no speed yet."""
        self._last_shown = time.perf_counter()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Shows the line, if the last one is old."""
        now = time.perf_counter()
        # Not after the first step, which has no speed yet.
        if batch and now - self._last_shown > self._seconds_between:
            self.speed.measure()
            # The device may have kept it waiting.
            self._last_shown = time.perf_counter()
            parts = self._parts({} if logs is None else logs)
            if self._rewrites:
                # A line that wraps cannot be rewritten.
                line = _shortened(parts, _columns(self.file) - 1)
                self._write(line, end="")
            else:
                self._write(" ".join(parts))

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Writes the line of the round."""
        logs = {} if logs is None else logs
        parts = [*self._parts(logs), *_validation(logs)]
        self._write(" ".join(parts))

    def _parts(self, logs: dict[str, Any]) -> list[str]:
        step = self.num_steps()
        total = self._last_step(step)
        about = "~" if total < self.total_steps else ""
        num_done = min(_BAR_LENGTH * step // max(total, 1), _BAR_LENGTH)
        parts = [f"[{'#' * num_done:<{_BAR_LENGTH}}]"]
        if self.speed.step:
            seconds = int(self._seconds_left(step))
            parts.append(f"{datetime.timedelta(seconds=seconds)} left")
        parts.append(f"step {step:,}/{about}{total:,}")
        if self.speed.step:
            parts.append(f"{self.speed.per_second()[1]:,.0f} tokens/s")
        return [*parts, *_metrics(logs)]

    def _seconds_left(self, step: int) -> float:
        left = max(self.total_steps - step, 0)
        # A round that is cut short has a validation, too.
        num_validations = math.ceil(left / self.speed.round_steps)
        seconds = num_validations * self.speed.validation_seconds
        seconds += left / self.speed.per_second()[0]
        limit = self.seconds_left()
        return seconds if limit is None else min(seconds, limit)

    def _last_step(self, step: int) -> int:
        """Returns the last step, or about that of a time limit before it."""
        limit = self.seconds_left()
        # Before the first step no speed says where the limit will be.
        if limit is None or not self.speed.step:
            return self.total_steps
        steps_left = int(limit * self.speed.per_second()[0])
        return min(self.total_steps, step + steps_left)

    def _write(self, line: str, end: str = "\n") -> None:
        if self._rewrites:
            line = f"\r{line}\x1b[K"
        self.file.write(line + end)
        self.file.flush()


def _metrics(logs: dict[str, Any], prefix: str = "") -> list[str]:
    """Describes loss, perplexity, accuracy and BLEU, if logs have them."""
    parts = [
        f"{name} {float(logs[prefix + name]):.4g}"
        for name in ("loss", "perplexity", "accuracy")
        if prefix + name in logs
    ]
    if prefix + "bleu" in logs:
        parts.append(f"BLEU {float(logs[prefix + 'bleu']):.2f}")
    # Hardly ever: the line stays short.
    if float(logs.get(prefix + "skipped", 0.0)):
        parts.append(f"skipped {float(logs[prefix + 'skipped']):.0f}")
    return parts


def _validation(logs: dict[str, Any]) -> list[str]:
    parts = _metrics(logs, "val_")
    return ["| validation", *parts] if parts else []


# How parts begin that a narrow terminal leaves out, in this order.
_LEAST = ("[", "perplexity", "accuracy")


def _shortened(parts: list[str], length: int) -> str:
    """Joins parts to a line of a length, and leaves out the least of them."""
    for begin in _LEAST:
        if len(" ".join(parts)) > length:
            parts = [part for part in parts if not part.startswith(begin)]
    return " ".join(parts)[:length]


def _columns(file: TextIO) -> int:
    try:
        return os.get_terminal_size(file.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


# Logs are read this many at a time, as reading waits for the device.
_READ_EVERY = 16
_MOST_LINES = 20


class FiniteGuard(keras.callbacks.Callback):
    """Stops, or prints a line, if an update was not finite.

    `TrainableModel` skips such updates, so the weights stay finite, and counts
    them in `skipped`.

    Args:
        on_nonfinite: `"stop"` or `"skip"`.
        first_step: int. Updates done before.
        describe_batch: function of a step, from 0, that returns the line
            numbers of its batch.
        file: where to write. Defaults to standard error.
        first_skipped: float. Updates that a resumed round skipped before it
            was stopped. Defaults to `0.0`.
    """

    def __init__(
        self,
        on_nonfinite: str,
        first_step: int,
        describe_batch: Callable[[int], Sequence[int]],
        file: TextIO | None = None,
        first_skipped: float = 0.0,
    ) -> None:
        super().__init__()
        self.on_nonfinite = on_nonfinite
        self.describe_batch = describe_batch
        self.file = file or sys.stderr
        self._step = first_step
        # Steps, and `skipped` after each of them, still on the device.
        self._seen: list[tuple[int, Any]] = []
        self._first_skipped = first_skipped
        self._num_skipped = 0.0

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Restarts the counts, as the metrics do."""
        self._num_skipped, self._first_skipped = self._first_skipped, 0.0

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Keeps the logs of a step, and reads them from time to time."""
        # Not read yet: that would wait for the device at every step.
        self._seen.append((self._step, (logs or {}).get("skipped", 0.0)))
        self._step += 1
        if len(self._seen) >= _READ_EVERY:
            self._read_logs()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Reads the last logs before a validation."""
        self._read_logs()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Reads the last logs of the round."""
        self._read_logs()

    def _read_logs(self) -> None:
        seen, self._seen = self._seen, []
        for step, num_skipped in seen:
            num_skipped = float(num_skipped)
            # `skipped` is a sum over the round, so it grows with each one.
            if num_skipped > self._num_skipped:
                self._num_skipped = num_skipped
                self._report(step)

    def _report(self, step: int) -> None:
        lines = self.describe_batch(step)
        shown = ", ".join(map(str, lines[:_MOST_LINES]))
        more = len(lines) - _MOST_LINES
        rest = f" and {more} more" if more > 0 else ""
        rate = float(self.model.optimizer.learning_rate)
        message = (
            f"The loss or gradient of update {step + 1:,} is not finite "
            f"(learning rate {rate:.3g}; lines {shown}{rest} of the training "
            "text)."
        )
        if self.on_nonfinite == "stop":
            raise InputError(
                f"{message} The update was not made, and the last checkpoint "
                "is good. Lower `training.learning_rate_scale`, set "
                "`training.gradient_clip`, mend those lines, or skip "
                "such updates: `--resume training.on_nonfinite=skip`."
            )
        print(f"{message} Skipped.", file=self.file, flush=True)


# Ctrl-C, and what schedulers send before they kill.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Records SIGINT and SIGTERM instead of exiting at once.

    A context manager, which restores the signal handlers at its end. Only the
    first signal is recorded; a second one acts at once, in case the process
    hangs. Outside the main thread, where Python has no signals, it does
    nothing.

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
        self._restore_handlers()

    def leave(self) -> NoReturn:
        """Ends the process as the received signal would have."""
        self._restore_handlers()
        # As Python itself does on Ctrl-C, which callers expect.
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        # Shells report signal `n` as 128 + n.
        raise SystemExit(128 + (self.received or 0))

    def _note(self, number: int, frame: FrameType | None) -> None:
        # `fit` looks at it after the update, where it can save.
        self.received = signal.Signals(number)
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
