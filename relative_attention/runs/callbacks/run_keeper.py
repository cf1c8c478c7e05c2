"""Keeps what a run has reached, and decides when it ends."""

import dataclasses
import json
import math
import pathlib
import sys
import time

import keras

from relative_attention.atomic_files import atomic_file
from relative_attention.errors import InputError
from relative_attention.models.weights import save_weights
from relative_attention.runs.callbacks.run_state import RunState
from relative_attention.training.averaged_weights import averaged_weights
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint
from relative_attention.training.run_checkpoints import RunCheckpoints
from relative_attention.training.training_table import TRAINING_TABLE
from relative_attention.training.training_table import write_training_table


class RunKeeper(keras.callbacks.Callback):
    """Checkpoints, the best weights and the history of a run.

    At the end of every epoch it appends the epoch's logs to the history,
    saves a checkpoint `checkpoints/step-00001000`, deletes all but the last
    few, writes the history to `history.json` and `training.csv` and the best
    weights so far to `best.safetensors` and `model.safetensors`, and ends the
    training when the recipe says so. In
    between it saves at the intervals asked for, and, when told to stop, a
    checkpoint `checkpoints/stop-00001234`, which the next one replaces. It
    comes last in the list of callbacks, to see what the others add to the
    logs.

    Args:
        directory: path of the run.
        keep_checkpoints: int. How many checkpoints are kept. Defaults to `5`.
        best_by: `"loss"` or `"bleu"`, of validation. Defaults to `"loss"`.
        early_stopping: int. Epochs without a better validation after which
            training ends; `0` for never. Defaults to `0`. Of several
            machines the one that writes decides for all.
        minutes: float. Time after which the epoch that ends is the last,
            over all parts of a run that was resumed. Defaults to `None`, no
            limit.
        save_every: int. Steps between two checkpoints. Defaults to `None`,
            one an epoch.
        save_minutes: float. Minutes between two checkpoints, likewise.
        validate_at: function of a number of steps done: whether the epoch
            ends there. Defaults to `None`, never known before.
        signals: `StopSignals`, entered. Defaults to `None`.
        run: dict for JSON, what a run that goes on must have the same.
        writes: bool. Whether this process writes; of several machines one
            does. Defaults to `True`.
        any_machine: function of a bool, whether it is true on one machine at
            least; called by all of them or by none. Defaults to `bool`, for
            one machine.
        file: where to say what is wrong. Defaults to standard error.
    """

    def __init__(
        self,
        directory,
        keep_checkpoints=5,
        best_by="loss",
        early_stopping=0,
        minutes=None,
        save_every=None,
        save_minutes=None,
        validate_at=None,
        signals=None,
        run=None,
        writes=True,
        any_machine=bool,
        file=None,
    ):
        super().__init__()
        self.directory = pathlib.Path(directory)
        self.keep_checkpoints = keep_checkpoints
        self.best_by = best_by
        self.early_stopping = early_stopping
        self.minutes = minutes
        self.save_every = save_every
        self.save_minutes = save_minutes
        self.validate_at = validate_at or (lambda step: False)
        self.signals = signals
        self.run = run or {}
        self.writes = writes
        self.any_machine = any_machine
        self.file = file or sys.stderr
        self.history = []
        self.step = 0
        self.unvalidated = None
        self._checkpoints = RunCheckpoints(directory)
        self._seconds_before = 0.0
        self._start = self._last_save = time.perf_counter()

    def checkpoints(self):
        """Folders of the checkpoints, the oldest first."""
        return self._checkpoints.steps()

    def restore(self, model):
        """Load the last good checkpoint into a compiled model, if any.

        A damaged one is reported, renamed and left for the one before.

        Afterwards `step` says how many steps are done, and `unvalidated`
        holds the logs of an epoch that was left before its validation ended,
        or `None`.

        Raises:
            InputError: if there are checkpoints and none can be used, or they
                are of a run that went otherwise.
        """
        if self.writes:
            self._checkpoints.tidy()
        damaged = {}
        for checkpoint in reversed(self._checkpoints.all()):
            try:
                state = load_checkpoint(model, checkpoint, RunState.from_json)
            except InputError as error:
                damaged[checkpoint] = error
                continue
            self._check_same_run(state.run)
            for path, damage in damaged.items():
                self._leave(path, damage, checkpoint)
            self.history = state.history
            self.step = state.step
            self.unvalidated = state.unvalidated
            self._seconds_before = state.seconds
            # What a crash undid is no history.
            self._write_history()
            return
        if damaged:
            raise InputError(
                f"No checkpoint of {self.directory} can be used. The last: "
                f"{next(iter(damaged.values()))} Start anew with "
                "`--overwrite`, or elsewhere."
            )

    def _leave(self, damaged, error, checkpoint):
        """Go on from the checkpoint before; the damaged one no longer counts.

        As one of those that are kept it would have good ones deleted.
        """
        line = f"{error} Going on from {checkpoint.name}, the one before."
        if self.writes:
            aside = self._checkpoints.set_aside(damaged)
            line += f" It is {aside.name} now, and can be deleted."
        print(line, file=self.file, flush=True)

    def _check_same_run(self, run):
        for name, value in self.run.items():
            if run.get(name) != value:
                raise InputError(
                    f"The run in {self.directory} had {name} = "
                    f"{run.get(name)}, now it is {value}: its batches would "
                    "not be the same. Give it as many devices as before, or "
                    "set `training.effective_batch_tokens` to what an update "
                    "had."
                )

    def is_over(self):
        """Whether early stopping or the time limit has ended the run."""
        if not self.history:
            return False
        scores = [self._score(epoch) for epoch in self.history]
        since_best = len(scores) - 1 - scores.index(min(scores))
        is_late = bool(
            self.minutes and self.history[-1]["seconds"] >= 60 * self.minutes
        )
        # Each machine has scores of its own, BLEU of what it translated: the
        # one that writes them down decides, or they would part.
        is_no_better = bool(
            self.writes
            and self.early_stopping
            and since_best >= self.early_stopping
        )
        return bool(self.any_machine(is_late or is_no_better))

    def _score(self, record):
        """Of two validations the better one has the lower score."""
        if self.best_by == "bleu":
            return -record["val_bleu"]
        loss = record["val_loss"]
        return loss if math.isfinite(loss) else float("inf")

    def on_train_begin(self, logs=None):
        self._start = self._last_save = time.perf_counter()

    def on_train_end(self, logs=None):
        self._seconds_before = self._seconds()

    def _seconds(self):
        return self._seconds_before + time.perf_counter() - self._start

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.validate_at(self.step):
            # What the epoch's end saves, too; but a validation may be long.
            self.unvalidated = _numbers(logs)
            return
        if self._is_told_to_stop():
            self._save("stop")
            self.signals.leave()
        seconds = time.perf_counter() - self._last_save
        if (self.save_every and self.step % self.save_every == 0) or (
            self.save_minutes and seconds >= 60 * self.save_minutes
        ):
            self._save("step")

    def on_test_batch_end(self, batch, logs=None):
        if self._is_told_to_stop():
            self.model.stop_evaluating = True

    def on_test_end(self, logs=None):
        if self._is_told_to_stop():
            self._save("stop")
            self.signals.leave()

    def on_epoch_end(self, epoch, logs=None):
        record = {
            "epoch": epoch + 1,
            "step": self.step,
            "seconds": self._seconds(),
            **_numbers(logs),
        }
        best = min(map(self._score, self.history), default=float("inf"))
        if self._score(record) < best and self.writes:
            # A run that is cut short leaves a model, too. Before the
            # checkpoint: a run killed in between would not see it again.
            with averaged_weights(self.model):
                for name in ("best.safetensors", "model.safetensors"):
                    save_weights(self.model.weights, self.directory / name)
        self.history.append(record)
        self.unvalidated = None
        self._save("step")
        self._write_history()
        if self._is_told_to_stop():
            self.signals.leave()
        if self.is_over():
            self.model.stop_training = True

    def _is_told_to_stop(self):
        return self.signals is not None and self.signals.received is not None

    def _write_history(self):
        """The history as `history.json` and `training.csv`."""
        if not self.writes:
            return
        with atomic_file(self.directory / "history.json", "w") as file:
            json.dump(self.history, file, indent=1)
        write_training_table(self.history, self.directory / TRAINING_TABLE)

    def _save(self, kind):
        """Save a checkpoint, and delete those that are no longer kept."""
        self._last_save = time.perf_counter()
        if not self.writes:
            return
        state = RunState(
            step=self.step,
            history=self.history,
            unvalidated=self.unvalidated,
            seconds=self._seconds(),
            run=self.run,
        )
        save_checkpoint(
            self.model,
            self._checkpoints.path(kind, self.step),
            dataclasses.asdict(state),
        )
        if kind == "step":
            self._checkpoints.prune(self.step, self.keep_checkpoints)


def _numbers(logs):
    return {name: float(value) for name, value in (logs or {}).items()}
