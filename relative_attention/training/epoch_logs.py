"""Completes the logs of an epoch before they are written down."""

from typing import Any

import keras

# Metrics of an update; where none is made they stay at zero.
_OF_UPDATES = ("val_gradient_norm", "val_skipped")


class EpochLogs(keras.callbacks.Callback):
    """Adds `learning_rate`, that of the next update, to an epoch's logs.

    Validation makes no updates: what its logs say of them is taken out. This
    callback comes before those that write the logs down.
    """

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Changes the logs in place."""
        if logs is None:
            return
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        for name in _OF_UPDATES:
            logs.pop(name, None)
