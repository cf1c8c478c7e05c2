"""What the logs of an epoch lack, and what they should not have."""

import keras

# Metrics of an update; where none is made they stay at zero.
_OF_UPDATES = ("val_gradient_norm", "val_skipped")


class EpochLogs(keras.callbacks.Callback):
    """Adds `learning_rate`, that of the next update, to an epoch's logs.

    What validation says of updates, which it makes none of, is taken out. It
    comes before the callbacks that write the logs down.
    """

    def on_epoch_end(self, epoch, logs=None):
        if logs is None:
            return
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        for name in _OF_UPDATES:
            logs.pop(name, None)
