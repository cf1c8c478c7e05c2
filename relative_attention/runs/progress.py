"""Saves a run while it trains, resumes it, and ends it.

`RunProgress` writes in the folder of a run:

    checkpoints/step-00001000     after a validation, or when one is due by
                                  its step: everything for resuming
                                  (`checkpoint.py`)
    checkpoints/stop-00001234     after a signal, or when one is due by the
                                  clock; deleted with the next one, so that no
                                  average depends on the clock
    epochs/step-00000580...       weights at the end of an epoch of the corpus,
                                  if the finished model is their mean
    best.safetensors              weights of the best validation so far;
                                  model.safetensors is the same until the end
    history.json, training.csv    a record of each validation

Each gets its name when it is complete. So a `kill -9` leaves the last
checkpoint, and hidden files, which the next process deletes. The next process
loads the checkpoint and repeats the updates after it. Batches and dropout are
functions of seed and step, so these updates are the same; on one CPU to the
last bit.

A round is the updates between two validations, and the second validation. Keras
calls a round an epoch. Here an epoch is a pass over the corpus, as in a recipe.
"""

import math
import pathlib
import time
from typing import Any
from typing import TypeAlias

import keras

from relative_attention.errors import InputError
from relative_attention.files import write_json
from relative_attention.models.weights import save_weights
from relative_attention.recipes.sections import TrainingSection
from relative_attention.runs.callbacks import StopSignals
from relative_attention.runs.checkpoint import RunCheckpoints
from relative_attention.runs.checkpoint import load_checkpoint
from relative_attention.runs.checkpoint import save_checkpoint
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.logs import Record
from relative_attention.runs.logs import write_training_table
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.run_directory import RECORD
from relative_attention.runs.run_directory import delete_torn_files
from relative_attention.training import averaged_weights
from relative_attention.training.trainable import metric_sums
from relative_attention.training.trainable import set_metric_sums

# Updates between two times that machines agree whether the time is up.
_AGREE_EVERY = 8

# What Keras gives to a callback: numbers by name, perhaps on a device.
Logs: TypeAlias = dict[str, Any]

# The checksums of the texts, which must stay the same.
TRAIN_IDS, VALIDATION_IDS = "train_ids", "validation_ids"
_TEXTS = {
    TRAIN_IDS: "The text to train on (`data.source`, `data.target`)",
    VALIDATION_IDS: "The validation text",
}


class RunProgress(keras.callbacks.Callback):
    """Counts the updates of a run, saves its progress, and ends it.

    Put it last in the list of callbacks, to see what others add to the logs.

    Args:
        directory: The path of the run.
        training: A `TrainingSection`: what to keep, how often, and when the
            run ends.
        cluster: A `Cluster`, whose chief writes.
        steps_per_pass: An integer, the updates of a pass over the corpus.
        total_steps: An integer, the updates of the whole run.
        must_stay: A dict for JSON with what must not change on resume.
        signals: A `StopSignals`, entered. Defaults to `None`: no signal ends
            the run.
        report: A function to call with each line for the log. Defaults to
            printing to standard error.

    Attributes:
        step: The number of updates done.
        records: A list of dicts of numbers, one per validation.
        unvalidated: A dict, the logs of a round whose validation has not
            ended, or `None`.
        resumed_logs: A dict, the metrics of a resumed round before it was
            stopped; empty if the run begins with a round.
        steps_per_round: The updates between two validations.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        training: TrainingSection,
        cluster: Cluster,
        steps_per_pass: int,
        total_steps: int,
        must_stay: dict[str, Any],
        signals: StopSignals | None = None,
        report: Report = print_error,
    ) -> None:
        super().__init__()
        self.directory = directory
        self.training = training
        self.cluster = cluster
        self.steps_per_pass = steps_per_pass
        self.steps_per_round = training.validate_every or steps_per_pass
        self.total_steps = total_steps
        self.must_stay = must_stay
        self.signals = signals or StopSignals()
        self.report = report
        self.checkpoints = RunCheckpoints(directory)
        self.step = 0
        self.records: list[Record] = []
        self.unvalidated: Record | None = None
        self.resumed_logs: Record = {}
        self._resumed_sums: list[float] | None = None
        # The time of earlier parts of the run, and before `fit`.
        self._seconds_before = 0.0
        self._start = self._last_save = time.perf_counter()

    # === Resuming ===

    def restore(self, model: keras.Model) -> None:
        """Loads the last good checkpoint into a compiled model, if any.

        A damaged one is reported and renamed, and the previous one is tried.

        Raises:
            InputError: if none of a run that has trained can be used, or they
                are of a run with other batches.
        """
        if self.cluster.is_chief:
            delete_torn_files(self.directory)
            self.checkpoints.tidy()
        damaged: dict[pathlib.Path, InputError] = {}
        # The newest first: each step back costs updates.
        for checkpoint in reversed(self.checkpoints.all()):
            try:
                state = load_checkpoint(model, checkpoint)
            except InputError as error:
                damaged[checkpoint] = error
                continue
            # Updates of other batches would be another run, not this one.
            self._check_same_batches(state["run"])
            self._resume_from(state)
            # Only now: a run without a good one is not changed.
            for path, damage in damaged.items():
                self._set_aside(path, damage, checkpoint)
            self.report(f"resuming after update {self.step:,}")
            # Removes the records of updates that a crash undid.
            self._write_history()
            return
        if damaged:
            raise InputError(
                f"No checkpoint of {self.directory} can be used. The last: "
                f"{next(iter(damaged.values()))} Start again with "
                "`--overwrite`, or elsewhere."
            )
        if (self.directory / "history.json").is_file():
            raise InputError(
                f"The run in {self.directory} has trained, and no checkpoint "
                "is left to resume from. Put one back, or train on from its "
                f"weights in another `--output`: add `training.start_from="
                f"{self.directory}`."
            )

    def _resume_from(self, state: dict[str, Any]) -> None:
        """Restores what `_save` wrote."""
        self.step = state["step"]
        self.records = state["history"]
        self.unvalidated = state["unvalidated"]
        self.resumed_logs = state["logs"] or {}
        self._resumed_sums = state["sums"]
        # The time limit counts all parts of a run.
        self._seconds_before = state["seconds"]

    def _check_same_batches(self, before: dict[str, Any]) -> None:
        # Both, as only a run on JAX has a number of shapes.
        for name in {**self.must_stay, **before}:
            old, new = before.get(name), self.must_stay.get(name)
            if old == new:
                continue
            if name in _TEXTS:
                raise InputError(
                    f"{_TEXTS[name]} must be the one that the run in "
                    f"{self.directory} was started with, in the same order "
                    "and with the same vocabulary: its token ids had the "
                    f"checksum {old}, now it is {new}. Restore the old text, "
                    "or train on this one in another `--output`."
                )
            way_out = (
                "Give it as many devices as before, or set "
                "`training.effective_batch_tokens` to what an update had."
            )
            if name == "num_shapes" and None in (old, new):
                # Only JAX needs batches of fixed shapes.
                first, here = (
                    "tensorflow" if shapes is None else "jax"
                    for shapes in (old, new)
                )
                raise InputError(
                    f"The run in {self.directory} was started on Keras' "
                    f"backend {first}, and this is {here}: its batches would "
                    f"not be the same. Resume it with KERAS_BACKEND={first}."
                )
            raise InputError(
                f"The run in {self.directory} had {name} = {old}, now it is "
                f"{new}: its batches would not be the same. {way_out}"
            )

    def _set_aside(
        self, damaged: pathlib.Path, error: InputError, good: pathlib.Path
    ) -> None:
        """Renames a damaged checkpoint, so that it does not count."""
        lost = self.checkpoints.step_of(damaged) - self.step
        line = (
            f"{error} Resuming from {good.name}, the one before: {lost:,} "
            "updates are made again."
        )
        if self.cluster.is_chief:
            aside = self.checkpoints.set_aside(damaged)
            line += f" It is {aside.name} now, and can be deleted."
        self.report(line)

    # === What `fit` calls ===

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._start = self._last_save = time.perf_counter()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._seconds_before = self._seconds()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        # Not earlier, as Keras resets the metrics just before this.
        sums, self._resumed_sums = self._resumed_sums, None
        if sums is not None and not set_metric_sums(self.model, sums):
            self.report(
                "The checkpoint has sums of other metrics: the next record is "
                "of the rest of its round alone."
            )

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.step += 1
        if self.step % self.steps_per_pass == 0:
            # Before a checkpoint of this update, as a run that resumes from it
            # does not come here again.
            self._save_pass()
        is_last = self.step == self.total_steps
        is_round = is_last or self.step % self.steps_per_round == 0
        if is_round or self._time_is_up():
            # The validation, which may be long, ends with a checkpoint. A run
            # that is stopped during validation must keep these logs.
            self.unvalidated = _numbers(logs)
            if not is_round:
                # Keras leaves the round, and validates.
                self.model.stop_training = True
            return
        every = self.training.save_every
        is_due = every is not None and self.step % every == 0
        # Before a save that is due, as a stop saves as well.
        self._stop_if_told(logs, "step" if is_due else "stop")
        if is_due:
            self._save("step", logs)
        elif self._seconds_since_save() >= 60 * (
            self.training.save_minutes or math.inf
        ):
            self._save("stop", logs)

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.signals.received is not None:
            # The validation is repeated on resume, so it may end at once.
            self.model.stop_evaluating = True

    def on_test_end(self, logs: Logs | None = None) -> None:
        self._stop_if_told()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        record = {
            "round": epoch + 1,
            "step": self.step,
            "seconds": self._seconds(),
            **_numbers(logs),
        }
        # Best weights, checkpoint, history, in this order. After a kill after
        # the first, the run validates again; after the second, `restore` writes
        # the history. In another order the best weights could be lost.
        if self._cost(record) < self._best_cost() and self.cluster.is_chief:
            self._check_folder()
            with averaged_weights(self.model):
                # Both, so that an interrupted run has a model, too.
                for name in ("best.safetensors", "model.safetensors"):
                    save_weights(self.model.weights, self.directory / name)
        self.records.append(record)
        self.unvalidated = None
        self._save("step")
        self._write_history()
        if self.signals.received is not None:
            self._leave()
        if self.is_over():
            self.model.stop_training = True
            reason = self._reason_to_end() or "another machine ends it"
            self.report(f"training ends after update {self.step:,}: {reason}")

    # === When a run ends ===

    def is_in_round(self) -> bool:
        """Returns whether there were updates after the last validation."""
        return self.step > (self.records[-1]["step"] if self.records else 0)

    def reason_to_train_no_more(self) -> str | None:
        """Returns why a resumed run makes no update, or `None` if it does."""
        if self.step >= self.total_steps:
            return (
                f"{self.step:,} were made, and the run has "
                f"{self.total_steps:,} (`training.steps`, `training.epochs`)"
            )
        return self._reason_to_end() if self.records else None

    def is_over(self) -> bool:
        """Returns whether early stopping or the time limit ends the run.

        All machines must call this, as each waits for the others.
        """
        # Each run has at least one validation.
        if not self.records:
            return False
        return self.cluster.any(self._reason_to_end() is not None)

    def _time_is_up(self) -> bool:
        """Returns whether the time limit ends a round before its last update.

        Machines must agree, and waiting for one another takes a while.
        """
        if not self.training.minutes:
            return False
        if self.cluster.asks_others and self.step % _AGREE_EVERY:
            return False
        return self.cluster.any(self.seconds_left() == 0)

    def seconds_left(self) -> float | None:
        """Returns the seconds left of `training.minutes`, if it is set."""
        if not self.training.minutes:
            return None
        return max(60 * self.training.minutes - self._seconds(), 0.0)

    def has_finite_validation(self) -> bool:
        """Returns whether a validation had a model to keep."""
        return self._best_cost() < math.inf

    def _reason_to_end(self) -> str | None:
        training = self.training
        seconds = self.records[-1]["seconds"]
        if training.minutes and seconds >= 60 * training.minutes:
            return f"the time is up (`training.minutes` {training.minutes:g})"
        costs = list(map(self._cost, self.records))
        # Of equal costs the first is the best: an equal one is no better.
        since_best = len(costs) - costs.index(min(costs)) - 1
        # Each machine computes its own BLEU, but all must end together. The
        # chief decides, as its BLEU is recorded.
        limit = training.early_stopping
        if limit and since_best >= limit and self.cluster.is_chief:
            return (
                f"{since_best} validation{'s' * (since_best > 1)} without a "
                f"better one (`training.early_stopping` {limit})"
            )
        return None

    def _best_cost(self) -> float:
        return min(map(self._cost, self.records), default=math.inf)

    def _cost(self, record: Record) -> float:
        """Returns a number that is lower for a better validation."""
        if self.training.best_by == "bleu":
            # Higher is better, unlike a loss.
            return -record["val_bleu"]
        loss = record["val_loss"]
        # `nan` cannot be compared.
        return loss if math.isfinite(loss) else math.inf

    def _seconds(self) -> float:
        """Returns the time of all parts of the run, including this one."""
        return self._seconds_before + time.perf_counter() - self._start

    # === What is written ===

    def _seconds_since_save(self) -> float:
        return time.perf_counter() - self._last_save

    def _stop_if_told(
        self, logs: Logs | None = None, kind: str = "stop"
    ) -> None:
        """After a signal, saves a checkpoint and ends the process."""
        if self.signals.received is not None:
            self._save(kind, logs)
            self._leave()

    def _leave(self) -> None:
        """Says that the run is saved, and ends the process."""
        self.report(
            f"told to stop: saved after update {self.step:,}, to be resumed "
            "with `--resume`"
        )
        self.signals.leave()

    def _save(self, kind: str, logs: Logs | None = None) -> None:
        """Saves a checkpoint, in the middle of a round with its logs."""
        self._last_save = time.perf_counter()
        if not self.cluster.is_chief:
            return
        self._check_folder()
        state = {
            "step": self.step,
            "history": self.records,
            "unvalidated": self.unvalidated,
            "seconds": self._seconds(),
            "run": self.must_stay,
            # A resumed round continues its sums, and records all of it.
            "sums": None if logs is None else metric_sums(self.model),
            "logs": None if logs is None else _numbers(logs),
        }
        path = self.checkpoints.path(kind, self.step)
        save_checkpoint(self.model, path, state)
        # Only now, as old ones are needed until the new one is complete.
        self.checkpoints.prune(path, self.training.keep_checkpoints)
        self._prune_passes()

    def _check_folder(self) -> None:
        """Ends a run whose folder is gone, as its output would be lost."""
        # A new folder of this name would have no recipe and no vocabulary.
        if not (self.directory / RECORD).is_file():
            raise InputError(
                f"The folder of the run, {self.directory}, was removed or "
                "moved while it trained. Put it back and resume with `train "
                "--resume`, or train again."
            )

    def _write_history(self) -> None:
        if self.cluster.is_chief:
            write_json(self.directory / "history.json", self.records)
            write_training_table(self.records, self.directory / "training.csv")

    # === Weights at the ends of passes, to be averaged ===

    def last_passes(self, step: int) -> list[pathlib.Path]:
        """Returns the weights of the last passes until a step, oldest first."""
        last = step // self.steps_per_pass
        first = max(last - self.training.average_epochs, 0) + 1
        paths = [self._pass_path(number) for number in range(first, last + 1)]
        # Fewer than asked for in a young run.
        return [path for path in paths if path.is_file()]

    def _pass_path(self, number: int) -> pathlib.Path:
        name = f"step-{number * self.steps_per_pass:08}.safetensors"
        return self.directory / "epochs" / name

    def _save_pass(self) -> None:
        if self.training.average_epochs and self.cluster.is_chief:
            self._check_folder()
            path = self._pass_path(self.step // self.steps_per_pass)
            path.parent.mkdir(exist_ok=True)
            save_weights(self.model.weights, path)
            # There may be many passes between checkpoints.
            self._prune_passes()

    def _prune_passes(self) -> None:
        """Deletes weights that neither the present nor a checkpoint needs.

        A run may be resumed from any of its checkpoints, and end soon after.
        """
        steps = (self.step, *self.checkpoints.all_steps())
        needed = {path for step in steps for path in self.last_passes(step)}
        for path in (self.directory / "epochs").glob("step-*.safetensors"):
            # Other files of these names are a user's.
            if path not in needed and path.stem[5:].isdecimal():
                path.unlink()


def _numbers(logs: Logs | None) -> Record:
    return {name: float(value) for name, value in (logs or {}).items()}
