"""Keeps what a run has reached, and decides when it ends."""

import json
import pathlib
import shutil
import time

import keras

from relative_attention.atomic_files import atomic_file
from relative_attention.models.weights import save_weights
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint


class RunKeeper(keras.callbacks.Callback):
    """Checkpoints, the best weights and the history of a run.

    At the end of every epoch it appends the epoch's logs to the history,
    saves a checkpoint `checkpoints/step-00001000`, deletes all but the last
    few, writes the weights with the lowest validation loss so far to
    `best.safetensors` and `model.safetensors`, and ends the training when the
    recipe says so. It comes last in the list of callbacks, to see what the
    others add to the logs.

    Args:
        directory: path of the run.
        keep_checkpoints: int. How many checkpoints are kept. Defaults to `5`.
        early_stopping: int. Epochs without a lower validation loss after
            which training ends; `0` for never. Defaults to `0`.
        minutes: float. Time after which the epoch that ends is the last,
            over all parts of a run that was resumed. Defaults to `None`, no
            limit.
    """

    def __init__(
        self, directory, keep_checkpoints=5, early_stopping=0, minutes=None
    ):
        super().__init__()
        self.directory = pathlib.Path(directory)
        self.keep_checkpoints = keep_checkpoints
        self.early_stopping = early_stopping
        self.minutes = minutes
        self.history = []

    def checkpoints(self):
        """Folders of the checkpoints, the oldest first."""
        return sorted((self.directory / "checkpoints").glob("step-*"))

    def restore(self, model):
        """Load the last checkpoint into a compiled model, if there is one.

        Returns:
            int. Steps done.
        """
        checkpoints = self.checkpoints()
        if not checkpoints:
            return 0
        state = load_checkpoint(model, checkpoints[-1])
        self.history = state["history"]
        return self.history[-1]["step"]

    def is_over(self):
        """Whether early stopping or the time limit has ended the run."""
        if not self.history:
            return False
        last = self.history[-1]
        losses = [epoch["val_loss"] for epoch in self.history]
        since_best = len(losses) - 1 - losses.index(min(losses))
        return bool(
            (self.early_stopping and since_best >= self.early_stopping)
            or (self.minutes and last["seconds"] >= 60 * self.minutes)
        )

    def on_train_begin(self, logs=None):
        self._start = time.perf_counter()
        self._seconds_before = (
            self.history[-1]["seconds"] if self.history else 0.0
        )

    def on_epoch_end(self, epoch, logs=None):
        step = int(self.model.optimizer.iterations)
        record = {
            "epoch": epoch + 1,
            "step": step,
            "seconds": self._seconds_before
            + (time.perf_counter() - self._start),
            **{name: float(value) for name, value in (logs or {}).items()},
        }
        best = min((e["val_loss"] for e in self.history), default=float("inf"))
        if record["val_loss"] < best:
            # A run that is cut short leaves a model, too. Before the
            # checkpoint: a run killed in between would not see it again.
            for name in ("best.safetensors", "model.safetensors"):
                save_weights(self.model.weights, self.directory / name)
        self.history.append(record)
        save_checkpoint(
            self.model,
            self.directory / "checkpoints" / f"step-{step:08}",
            {"history": self.history},
        )
        with atomic_file(self.directory / "history.json", "w") as file:
            json.dump(self.history, file, indent=1)
        for checkpoint in self.checkpoints()[: -self.keep_checkpoints]:
            shutil.rmtree(checkpoint)
        if self.is_over():
            self.model.stop_training = True
