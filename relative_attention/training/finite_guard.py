"""Reports updates that were left out since they were not finite."""

import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TextIO

import keras

from relative_attention.errors import InputError

# Logs are looked at in batches of this many: looking waits for the device.
_LOOK_EVERY = 16
_MOST_LINES = 20


class FiniteGuard(keras.callbacks.Callback):
    """Stops, or prints a line, when an update was not finite.

    `TrainableModel` leaves such updates out by itself, so that the weights
    stay good, and counts them in `skipped`.

    Args:
        on_nonfinite: `"stop"` or `"skip"`.
        first_step: int. Updates done before.
        describe_batch: function of a step, 0 first, that returns the line
            numbers of its batch.
        file: where to write. Defaults to standard error.
        first_skipped: float. Updates left out before in the epoch that is
            resumed. Defaults to `0.0`.
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
        # Steps and what `skipped` was after them, still on the device.
        self._seen: list[tuple[int, Any]] = []
        self._first_skipped = first_skipped
        self._num_skipped = 0.0

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Forgets the updates left out before, as the metrics do."""
        self._num_skipped, self._first_skipped = self._first_skipped, 0.0

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Takes the logs of a step, and looks at them now and then."""
        self._seen.append((self._step, (logs or {}).get("skipped", 0.0)))
        self._step += 1
        if len(self._seen) >= _LOOK_EVERY:
            self._look()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Looks at the last steps before a validation."""
        self._look()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Looks at the last steps of the epoch."""
        self._look()

    def _look(self) -> None:
        seen, self._seen = self._seen, []
        for step, num_skipped in seen:
            num_skipped = float(num_skipped)
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
                "`training.gradient_clip`, mend those lines, or go on without "
                "such updates: `--resume training.on_nonfinite=skip`."
            )
        print(f"{message} Skipped.", file=self.file, flush=True)
