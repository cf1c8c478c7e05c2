"""One line that says how training goes."""

import sys
import time

import keras


class ProgressLine(keras.callbacks.Callback):
    """Shows steps, loss, tokens per second and the time left.

    On a terminal the line is rewritten as training goes on; elsewhere it is
    written once an epoch. It needs the metric `tokens` of `Transformer` for
    the speed, and adds `tokens_per_second` to the logs of the epoch, for
    callbacks that come after it.

    Args:
        total_steps: int. Steps of the whole training.
        file: where to write. Defaults to standard error.
    """

    def __init__(self, total_steps, file=None):
        super().__init__()
        self.total_steps = total_steps
        self.file = file or sys.stderr
        self._rewrites = self.file.isatty()

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()
        self._last_shown = self._start
        self._seconds = 0.0
        self._num_steps = 0

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        # Validation, which follows the last batch, is not counted.
        self._seconds = now - self._start
        self._num_steps = batch + 1
        if self._rewrites and now - self._last_shown > 0.5:
            self._last_shown = now
            self.file.write(f"\r{self._line(logs or {})}\x1b[K")
            self.file.flush()

    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        logs["tokens_per_second"] = self._speed(logs)
        start, end = ("\r", "\x1b[K\n") if self._rewrites else ("", "\n")
        validation = " ".join(
            f"{name} {_short(value)}"
            for name, value in logs.items()
            if name.startswith("val_") and name != "val_tokens"
        )
        line = f"{self._line(logs)} {validation}".rstrip()
        self.file.write(f"{start}{line}{end}")
        self.file.flush()

    def _line(self, logs):
        step = int(self.model.optimizer.iterations)
        left = self.total_steps - step
        seconds_left = left * self._seconds / max(self._num_steps, 1)
        bar = "#" * (20 * step // self.total_steps)
        return (
            f"[{bar:<20}] step {step:,}/{self.total_steps:,} "
            f"loss {_short(logs.get('loss', 0.0))} "
            f"{self._speed(logs):,.0f} tokens/s "
            f"{_clock(seconds_left)} left"
        )

    def _speed(self, logs):
        return logs.get("tokens", 0.0) / max(self._seconds, 1e-9)


def _short(value):
    return f"{float(value):.4g}"


def _clock(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
