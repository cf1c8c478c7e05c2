"""The callback that saves a run while it trains, and ends it."""

import pathlib
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras

from relative_attention.models.trainable import metric_sums
from relative_attention.models.trainable import set_metric_sums
from relative_attention.models.weights import save_weights
from relative_attention.runs.callbacks.checkpointer import Checkpointer
from relative_attention.runs.callbacks.epoch_weights import EpochWeights
from relative_attention.runs.callbacks.run_cost import RunCost
from relative_attention.runs.callbacks.run_history import RunHistory
from relative_attention.runs.callbacks.run_state import Record
from relative_attention.runs.callbacks.run_state import RunState
from relative_attention.runs.callbacks.save_interval import SaveInterval
from relative_attention.runs.callbacks.stop_rule import StopRule
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.training.averaged_weights import averaged_weights
from relative_attention.training.stop_signals import StopSignals


class RunProgress(keras.callbacks.Callback):
    """Counts the steps of a run, saves what it has reached, and ends it.

    It wires `Checkpointer`, `EpochWeights`, `RunCost`, `RunHistory`,
    `SaveInterval` and `StopRule` to what `fit` calls:

    - after an update: the weights, if an epoch ends with it; a checkpoint, if
      one is due, or if the run was told to stop, which then ends;
    - after a validation: the best weights so far as `best.safetensors` and
      `model.safetensors`, a checkpoint, then `history.json` and
      `training.csv`; and the end, if the rule says so.

    It comes last in the list of callbacks, to see what the others add to the
    logs.

    Args:
        directory: The path of the run.
        training: A `TrainingSection`, which says what is kept, how often, and
            when the run ends.
        cluster: A `Cluster`, whose chief writes.
        validate_at: A function of a number of updates done that returns
            whether a validation follows.
        signals: A `StopSignals`, entered. Defaults to `None`.
        run: A dict for JSON of what must be the same when the run goes on.
        epoch_weights: An `EpochWeights`. Defaults to `None`: none are kept.
        report: A function that is called with each line on what is wrong.
            Defaults to printing to standard error.

    Attributes:
        step: The number of updates that are done.
        unvalidated: A dict, the logs of an epoch whose validation has not
            ended, or `None`.
        resumed_logs: A dict, what the metrics of the epoch that is resumed
            gave before; empty where a run begins with an epoch.
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
        self.save_interval = SaveInterval(
            training.save_every, training.save_minutes
        )
        self.epoch_weights = epoch_weights
        self.stop_rule = StopRule(
            training.early_stopping,
            training.minutes,
        )
        self.step = 0
        self.unvalidated: Record | None = None
        self.resumed_logs: Record = {}
        self._resumed_sums: list[float] | None = None
        self._cost = RunCost()
        self._last_save = time.perf_counter()

    def restore(self, model: keras.Model) -> None:
        """Goes on from the last good checkpoint of the run, if any.

        Args:
            model: The compiled model.

        Raises:
            InputError: if there are checkpoints and none can be used, or they
                are of a run that went otherwise.
        """
        state = self.checkpointer.restore(model)
        if state is None:
            return
        self.step = state.step
        self.unvalidated = state.unvalidated
        self.resumed_logs = state.logs or {}
        self._resumed_sums = state.sums
        self.history.records = state.history
        self._cost.restore(state.seconds, state.joules)
        # What a crash undid is no history.
        self._write_history()

    def is_over(self) -> bool:
        """Returns whether early stopping or the time limit ended the run."""
        return self.stop_rule.is_over(self.history, self.cluster)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._last_save = time.perf_counter()
        self._cost.begin()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._cost.end()

    def on_epoch_begin(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        # Here, as Keras sets the metrics to 0 just before.
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
        # Its counter must not go round unseen.
        self._cost.joules()
        self._save_epoch()
        if self.validate_at(self.step):
            # The validation ends with a checkpoint; but it may be long, and
            # who is told to stop in it must not lose these logs.
            self.unvalidated = _numbers(logs)
            return
        self._stop_if_told(logs)
        seconds = time.perf_counter() - self._last_save
        if self.save_interval.is_due(self.step, seconds):
            self._save("step", logs)

    def on_test_batch_end(
        self, batch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        self._cost.joules()
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
            "seconds": self._cost.seconds(),
            **_numbers(logs),
        }
        joules = self._cost.joules()
        if joules is not None:
            record["joules"] = joules
        # Best weights, checkpoint, history, in this order. Killed after the
        # first, the run validates again; killed after the second, `restore`
        # writes the history. The other way round the best would be lost.
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

    def _is_told_to_stop(self) -> bool:
        return self.signals is not None and self.signals.received is not None

    def _stop_if_told(self, logs: Mapping[str, Any] | None = None) -> None:
        """Saves a checkpoint and leaves, after a signal."""
        if self.signals is not None and self._is_told_to_stop():
            self._save("stop", logs)
            self.signals.leave()

    def _save(self, kind: str, logs: Mapping[str, Any] | None = None) -> None:
        """Saves a checkpoint, in the middle of an epoch with its logs."""
        self._last_save = time.perf_counter()
        state = RunState(
            step=self.step,
            history=self.history.records,
            unvalidated=self.unvalidated,
            seconds=self._cost.seconds(),
            joules=self._cost.joules(),
            run=self.checkpointer.run,
            sums=None if logs is None else metric_sums(self.model),
            logs=None if logs is None else _numbers(logs),
        )
        self.checkpointer.save(self.model, state, kind)
        self._prune_epochs()

    def _save_epoch(self) -> None:
        """Keeps the weights if an epoch ends with this step."""
        ends = self.epoch_weights
        if ends is None or not self.cluster.is_chief:
            return
        if ends.is_epoch_end(self.step):
            ends.save(self.model, self.step)
            # Checkpoints may be many epochs apart.
            self._prune_epochs()

    def _prune_epochs(self) -> None:
        if self.epoch_weights is not None and self.cluster.is_chief:
            self.epoch_weights.prune(self.step, self.checkpointer.all_steps())

    def _write_history(self) -> None:
        if self.cluster.is_chief:
            self.history.write()


def _numbers(logs: Mapping[str, Any] | None) -> Record:
    return {name: float(value) for name, value in (logs or {}).items()}
