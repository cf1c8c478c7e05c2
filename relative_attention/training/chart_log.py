"""Charts of a training, for TensorBoard."""

from collections.abc import Callable
from typing import Any

import keras

from relative_attention.training.event_log import EventLog
from relative_attention.training.relation_tables import relation_tables

# A sum that grows with the length of an epoch tells nothing.
_NO_CHART = ("tokens", "val_tokens")


class ChartLog(keras.callbacks.Callback):
    """Writes the logs of each epoch, and histograms of relation embeddings.

    The horizontal axis is that of updates, so a run that is resumed goes on
    in the same charts. Training and validation are two series of a chart:
    `val_loss` is the `loss` of the series `validation`.

    Args:
        event_log: `EventLog`.
        num_steps: function without arguments that returns the number of
            steps done.
    """

    def __init__(
        self, event_log: EventLog, num_steps: Callable[[], int]
    ) -> None:
        super().__init__()
        self.event_log = event_log
        self.num_steps = num_steps

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Writes what the epoch gave."""
        step = self.num_steps()
        for name, value in (logs or {}).items():
            if name in _NO_CHART:
                continue
            is_validation = name.startswith("val_")
            self.event_log.scalar(
                "validation" if is_validation else "train",
                name.removeprefix("val_"),
                value,
                step,
            )
        for name, table in relation_tables(self.model).items():
            for head, values in enumerate(table):
                tag = f"relations/{name}"
                if len(table) > 1:
                    tag += f"/head_{head}"
                self.event_log.histogram("train", tag, values, step)
        self.event_log.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the files."""
        self.event_log.close()
