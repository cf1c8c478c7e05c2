"""The callback that saves a run while it trains, and ends it."""

import json
import math
import pathlib
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras

from relative_attention.files import atomic_file
from relative_attention.models.trainable import metric_sums
from relative_attention.models.trainable import set_metric_sums
from relative_attention.models.weights import save_weights
from relative_attention.runs.checkpoints import Checkpointer
from relative_attention.runs.checkpoints import EpochWeights
from relative_attention.runs.checkpoints import RunState
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.training.callbacks import StopSignals
from relative_attention.training.logs import TRAINING_TABLE
from relative_attention.training.logs import Record
from relative_attention.training.logs import write_training_table
from relative_attention.training.optimizer import averaged_weights


class RunHistory:
    """Keeps a record of each validation, and tells which was the best.

    Args:
        directory: The path of the run.
        best_by: A string, what is compared: `"loss"` or `"bleu"`, of
            validation. Defaults to `"loss"`.

    Attributes:
        records: A list of dicts of numbers, one for each validation.
    """

    def __init__(
        self, directory: pathlib.Path | str, best_by: str = "loss"
    ) -> None:
        self.directory = pathlib.Path(directory)
        self.best_by = best_by
        self.records: list[Record] = []

    def is_best(self, record: Record) -> bool:
        """Returns whether a new validation is better than all before."""
        best = min(map(self._cost, self.records), default=math.inf)
        return self._cost(record) < best

    def since_best(self) -> int:
        """Returns how many validations came after the best one."""
        costs = [self._cost(record) for record in self.records]
        return len(costs) - costs.index(min(costs)) - 1 if costs else 0

    def write(self) -> None:
        """Writes the records as `history.json` and `training.csv`."""
        with atomic_file(self.directory / "history.json", "w") as file:
            json.dump(self.records, file, indent=1)
        write_training_table(self.records, self.directory / TRAINING_TABLE)

    def _cost(self, record: Record) -> float:
        """Returns a number that is lower for a better validation."""
        if self.best_by == "bleu":
            return -record["val_bleu"]
        loss = record["val_loss"]
        # `nan` cannot be compared.
        return loss if math.isfinite(loss) else math.inf


class RunProgress(keras.callbacks.Callback):
    """Counts the updates of a run, saves its progress, and ends it.

    - After an update: the weights, if an epoch ends with it; a checkpoint, if
      one is due, or if the run was told to stop, which then ends.
    - After a validation: the best weights so far, as `best.safetensors` and
      `model.safetensors`; a checkpoint; `history.json` and `training.csv`.
      The run ends if `training.early_stopping` or `training.minutes` says so.

    Put it last in the list of callbacks, to see what others add to the logs.

    Args:
        directory: The path of the run.
        training: A `TrainingSection`: what is kept, how often, and when the
            run ends.
        cluster: A `Cluster`, whose chief writes.
        validate_at: A function of a number of updates done that returns
            whether a validation follows.
        signals: A `StopSignals`, entered. Defaults to `None`.
        run: A dict for JSON of what must be the same when the run is resumed.
        epoch_weights: An `EpochWeights`. Defaults to `None`: none are kept.
        report: A function that is called with each line on what is wrong.
            Defaults to printing to standard error.

    Attributes:
        step: The number of updates done.
        unvalidated: A dict, the logs of an epoch whose validation has not
            ended, or `None`.
        resumed_logs: A dict, what the metrics of a resumed epoch gave before;
            empty if the run begins with an epoch.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        training: TrainingSection,
        cluster: Cluster,
        validate_at: Callable[[int], bool],
        signals: StopSignals | None = None,
        run: dict[str, Any] | None = None,
        epoch_weights: EpochWeights | None = None,
        report: Report = print_error,
    ) -> None:
        super().__init__()
        self.directory = directory
        self.training = training
        self.cluster = cluster
        self.validate_at = validate_at
        self.signals = signals
        self.report = report
        self.checkpointer = Checkpointer(
            directory,
            training.keep_checkpoints,
            run,
            cluster.is_chief,
            report,
        )
        self.history = RunHistory(directory, training.best_by)
        self.epoch_weights = epoch_weights
        self.step = 0
        self.unvalidated: Record | None = None
        self.resumed_logs: Record = {}
        self._resumed_sums: list[float] | None = None
        # The time of the parts of the run before this one, or before `fit`.
        self._seconds_before = 0.0
        self._start = self._last_save = time.perf_counter()

    def restore(self, model: keras.Model) -> None:
        """Restores the last good checkpoint of the run, if any.

        Args:
            model: The compiled model.

        Raises:
            InputError: if there are checkpoints and none can be used, or they
                are of a run with other batches.
        """
        state = self.checkpointer.restore(model)
        if state is None:
            return
        self.step = state.step
        self.unvalidated = state.unvalidated
        self.resumed_logs = state.logs or {}
        self._resumed_sums = state.sums
        self.history.records = state.history
        self._seconds_before = state.seconds
        self.report(f"resuming after update {self.step:,}")
        # Drops the records of what a crash undid.
        self._write_history()

    def is_over(self) -> bool:
        """Returns whether early stopping or the time limit ends the run.

        Every machine must ask, as each waits for the answers of the others.
        """
        if not self.history.records:
            return False
        return self.cluster.any(self._reason_to_end() is not None)

    def seconds_left(self) -> float | None:
        """Returns how much of `training.minutes` is left, if it is set."""
        if not self.training.minutes:
            return None
        return max(60 * self.training.minutes - self._seconds(), 0.0)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._start = self._last_save = time.perf_counter()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._seconds_before = self._seconds()

    def on_epoch_begin(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        # Not earlier: Keras sets the metrics to 0 just before this.
        sums, self._resumed_sums = self._resumed_sums, None
        if sums is not None and not set_metric_sums(self.model, sums):
            self.report(
                "The checkpoint has sums of other metrics: the next record is "
                "of the rest of its epoch alone."
            )

    def on_train_batch_end(
        self, batch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        self.step += 1
        if (
            self.epoch_weights is not None
            and self.cluster.is_chief
            and self.epoch_weights.save(self.model, self.step)
        ):
            # Checkpoints may be many epochs apart.
            self._prune_epochs()
        if self.validate_at(self.step):
            # The validation, which may be long, ends with a checkpoint. A run
            # that is told to stop in it must not lose these logs.
            self.unvalidated = _numbers(logs)
            return
        self._stop_if_told(logs)
        if self._is_save_due():
            self._save("step", logs)

    def on_test_batch_end(
        self, batch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        if self._is_told_to_stop():
            self.model.stop_evaluating = True

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._stop_if_told()

    def on_epoch_end(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        record = {
            "epoch": epoch + 1,
            "step": self.step,
            "seconds": self._seconds(),
            **_numbers(logs),
        }
        # Best weights, checkpoint, history, in this order. Killed after the
        # first, the run validates again; killed after the second, `restore`
        # writes the history. In another order the best would be lost.
        if self.history.is_best(record) and self.cluster.is_chief:
            with averaged_weights(self.model):
                # Both, so that a run that is cut short leaves a model, too.
                for name in ("best.safetensors", "model.safetensors"):
                    save_weights(self.model.weights, self.directory / name)
        self.history.records.append(record)
        self.unvalidated = None
        self._save("step")
        self._write_history()
        if self.signals is not None and self._is_told_to_stop():
            self.signals.leave()
        if self.is_over():
            self.model.stop_training = True
            reason = self._reason_to_end() or "another machine ends it"
            self.report(f"training ends after update {self.step:,}: {reason}")

    def _reason_to_end(self) -> str | None:
        records, training = self.history.records, self.training
        if training.minutes and records[-1]["seconds"] >= 60 * training.minutes:
            return f"the time is up (`training.minutes` {training.minutes:g})"
        # Each machine has its own BLEU, of what it translated, but all must
        # end together: the chief decides, whose BLEU is written down.
        since_best, limit = self.history.since_best(), training.early_stopping
        if limit and since_best >= limit and self.cluster.is_chief:
            return (
                f"{since_best} validation{'s' * (since_best > 1)} without a "
                "better one "
                f"(`training.early_stopping` {limit})"
            )
        return None

    def _seconds(self) -> float:
        """Returns the time of all parts of the run, this one included."""
        return self._seconds_before + time.perf_counter() - self._start

    def _is_save_due(self) -> bool:
        every, minutes = self.training.save_every, self.training.save_minutes
        seconds = time.perf_counter() - self._last_save
        return bool(
            (every and self.step % every == 0)
            or (minutes and seconds >= 60 * minutes)
        )

    def _is_told_to_stop(self) -> bool:
        return self.signals is not None and self.signals.received is not None

    def _stop_if_told(self, logs: Mapping[str, Any] | None = None) -> None:
        """After a signal, saves a checkpoint and ends the process."""
        if self.signals is not None and self._is_told_to_stop():
            self._save("stop", logs)
            self.report(
                f"told to stop: saved after update {self.step:,}, to be "
                "resumed with `--resume`"
            )
            self.signals.leave()

    def _save(self, kind: str, logs: Mapping[str, Any] | None = None) -> None:
        """Saves a checkpoint, in the middle of an epoch with its logs."""
        self._last_save = time.perf_counter()
        state = RunState(
            step=self.step,
            history=self.history.records,
            unvalidated=self.unvalidated,
            seconds=self._seconds(),
            run=self.checkpointer.run,
            sums=None if logs is None else metric_sums(self.model),
            logs=None if logs is None else _numbers(logs),
        )
        self.checkpointer.save(self.model, state, kind)
        self._prune_epochs()

    def _prune_epochs(self) -> None:
        if self.epoch_weights is not None and self.cluster.is_chief:
            steps = self.checkpointer.folders.all_steps()
            self.epoch_weights.prune(self.step, steps)

    def _write_history(self) -> None:
        if self.cluster.is_chief:
            self.history.write()


def _numbers(logs: Mapping[str, Any] | None) -> Record:
    return {name: float(value) for name, value in (logs or {}).items()}
