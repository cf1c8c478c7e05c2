"""One line that says how training goes."""

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from typing import TextIO

import keras

_SECONDS_BETWEEN_LINES = 0.5
_BAR_LENGTH = 20


class ProgressLine(keras.callbacks.Callback):
    """Shows steps, loss, perplexity, accuracy, tokens/s and the time left.

    On a terminal the line is rewritten as training goes on; elsewhere it is
    written once an epoch, with what validation gave. It needs the metric
    `tokens` of `Transformer` for the speed, and adds `tokens_per_second` to
    the logs of the epoch, for callbacks that come after it.

    Speed and time left leave out the first step of an epoch, which compiles;
    the time left counts the validations that are still to come, as long as
    the last one.

    Args:
        total_steps: int. Steps of the whole training.
        file: where to write. Defaults to standard error.
        num_steps: function without arguments that returns the number of
            steps done. Defaults to what the optimizer counted, which leaves
            out updates that were not finite.
        first_tokens: float. Tokens counted before in the epoch that is
            resumed; the speed is that of the rest. Defaults to `0.0`.
    """

    def __init__(
        self,
        total_steps: int,
        file: TextIO | None = None,
        num_steps: Callable[[], int] | None = None,
        first_tokens: float = 0.0,
    ) -> None:
        super().__init__()
        self.total_steps = total_steps
        self.file = file or sys.stderr
        self.num_steps = num_steps or self._num_updates
        self._first_tokens = first_tokens
        self._rewrites = self.file.isatty()
        self._epoch_steps = 0
        self._training_end: float | None = None
        self._validation_seconds = 0.0
        # Steps, tokens and time at the first step of an epoch.
        self._first: tuple[int, float, float] | None = None
        # The last step and its logs, unread: they are on the device.
        self._last_batch: tuple[int, dict[str, Any]] | None = None

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Starts the clock of the epoch."""
        self._start = time.perf_counter()
        if self._training_end is not None:
            self._validation_seconds = self._start - self._training_end
        self._last_shown = self._start
        self._training_end = None
        self._first = None
        self._begin = (0, self._first_tokens, self._start)
        self._first_tokens = 0.0
        self._last = self._begin
        self._last_batch = None

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Draws the line on a terminal, and ends the training of the epoch."""
        self._last_batch = (batch, logs or {})
        if self._first is None:
            self._first = self._last = self._measure()
        elif (
            self._rewrites
            and time.perf_counter() - self._last_shown > _SECONDS_BETWEEN_LINES
        ):
            self._last = self._measure()
            self._last_shown = self._last[2]
            self._write(self._line(logs or {}), end="")
        if logs is not None and batch + 1 == (self.params or {}).get("steps"):
            # A run that is stopped in validation goes on with these logs.
            self._end_of_training()
            logs["tokens_per_second"] = self._speeds()[1]

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Stops the clock of the epoch."""
        self._end_of_training()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Writes the line of the epoch."""
        logs = {} if logs is None else logs
        self._end_of_training()
        if self._last_batch is not None:
            logs["tokens_per_second"] = self._speeds()[1]
        self._write(self._line(logs) + _validation(logs), end="\n")

    def _end_of_training(self) -> None:
        """Stops the clock of the epoch before validation."""
        if self._last_batch is not None and self._training_end is None:
            self._last = self._measure()
            self._training_end = self._last[2]
            self._epoch_steps = self._last[0]

    def _measure(self) -> tuple[int, float, float]:
        """Returns steps and tokens of the epoch, and when they were done.

        A device works behind Python's back: reading a number waits for it,
        so the clock is looked at afterwards.
        """
        batch, logs = self._last_batch or (0, {})
        tokens = float(logs.get("tokens", 0.0))
        return batch + 1, tokens, time.perf_counter()

    def _speeds(self) -> tuple[float, float]:
        """Returns steps and tokens a second."""
        start = self._first
        if start is None or start[0] >= self._last[0]:
            # One step alone is better than nothing.
            start = self._begin
        steps, tokens, seconds = (
            last - first for first, last in zip(start, self._last)
        )
        return steps / max(seconds, 1e-9), tokens / max(seconds, 1e-9)

    def _seconds_left(self, step: int) -> float:
        left = max(self.total_steps - step, 0)
        num_validations = (
            math.ceil(left / self._epoch_steps) if self._epoch_steps else 0
        )
        return (
            left / self._speeds()[0]
            + num_validations * self._validation_seconds
        )

    def _num_updates(self) -> int:
        iterations = self.model.optimizer.iterations
        # Of several replicas' variables there is no `int`.
        return int(keras.ops.convert_to_numpy(iterations))

    def _line(self, logs: dict[str, Any]) -> str:
        step = self.num_steps()
        num_done = min(_BAR_LENGTH * step // self.total_steps, _BAR_LENGTH)
        parts = [
            f"[{'#' * num_done:<{_BAR_LENGTH}}]",
            f"step {step:,}/{self.total_steps:,}",
            *_metrics(logs),
        ]
        if self._last_batch is not None:
            parts += [
                f"{self._speeds()[1]:,.0f} tokens/s",
                f"{_clock(self._seconds_left(step))} left",
            ]
        return " ".join(parts)

    def _write(self, line: str, end: str) -> None:
        if self._rewrites:
            if not end:
                # A line that wraps could not be rewritten.
                line = _cut(line, _columns(self.file) - 1)
            line = f"\r{line}\x1b[K"
        self.file.write(line + end)
        self.file.flush()


def _metrics(logs: dict[str, Any], prefix: str = "") -> list[str]:
    """Describes loss, perplexity, accuracy and BLEU, where logs have them."""
    parts = [
        f"{name} {float(logs[prefix + name]):.4g}"
        for name in ("loss", "perplexity", "accuracy")
        if prefix + name in logs
    ]
    if prefix + "bleu" in logs:
        parts.append(f"BLEU {float(logs[prefix + 'bleu']):.2f}")
    if float(logs.get(prefix + "skipped", 0.0)):
        parts.append(f"skipped {float(logs[prefix + 'skipped']):.0f}")
    return parts


def _validation(logs: dict[str, Any]) -> str:
    parts = _metrics(logs, "val_")
    return f" | validation {' '.join(parts)}" if parts else ""


def _cut(line: str, length: int) -> str:
    """Cuts a line to a length; the bar goes first."""
    if len(line) > length:
        line = line[line.index("] ") + 2 :]
    return line[:length]


def _columns(file: TextIO) -> int:
    try:
        return os.get_terminal_size(file.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
