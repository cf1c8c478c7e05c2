"""Saves the checkpoints of a run, and restores the last good one."""

import dataclasses
import pathlib
from typing import Any

import keras

from relative_attention.errors import InputError
from relative_attention.runs.callbacks.run_state import RunState
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint
from relative_attention.training.run_checkpoints import RunCheckpoints

# The checksums of the texts among what must be the same. A run of an earlier
# version has none.
TRAIN_IDS, VALIDATION_IDS = "train_ids", "validation_ids"
_TEXTS = {
    TRAIN_IDS: "The text to train on (`data.source`, `data.target`)",
    VALIDATION_IDS: "The validation text",
}
# What must be the same when a run goes on, and how to have it so.
_WAYS_OUT = {
    "update_tokens": (
        "Give it as many devices as before, or set "
        "`training.effective_batch_tokens` to what an update had."
    ),
    "num_shapes": (
        "Go on with the backend of Keras (`KERAS_BACKEND`) that it was "
        "started on: tensorflow has no fixed shapes, jax has."
    ),
}


class Checkpointer:
    """Saves and restores the variables and the progress of a run.

    A checkpoint is a folder, `checkpoints/step-00001000`, that takes its name
    when all of it is written: a process that is killed while it saves leaves
    the checkpoint before as it was. One of a run that was told to stop is
    called `checkpoints/stop-00001234`, and goes when the next is saved.

    Args:
        directory: The path of the run.
        keep: An integer, how many checkpoints are kept. Defaults to `5`.
        run: A dict for JSON of what must be the same when the run goes on.
            Defaults to `None`, nothing.
        writes: A boolean to indicate whether this process writes; of several
            machines the chief does. Defaults to `True`.
        report: A function that is called with each line on what is wrong.
            Defaults to printing to standard error.
    """

    def __init__(
        self,
        directory: pathlib.Path | str,
        keep: int = 5,
        run: dict[str, Any] | None = None,
        writes: bool = True,
        report: Report = print_error,
    ) -> None:
        self.directory = pathlib.Path(directory)
        self.keep = keep
        self.run = run or {}
        self.writes = writes
        self.report = report
        self._checkpoints = RunCheckpoints(directory)

    def steps(self) -> list[pathlib.Path]:
        """Returns the folders of the checkpoints, the oldest first."""
        return self._checkpoints.steps()

    def all_steps(self) -> list[int]:
        """Returns the steps of all checkpoints, the oldest first."""
        return self._checkpoints.all_steps()

    def save(self, model: keras.Model, state: RunState, kind: str) -> None:
        """Saves a checkpoint, and deletes those that are no longer kept.

        Args:
            model: The compiled model.
            state: The progress of the run; its step names the folder.
            kind: `"step"`, or `"stop"` for a run that was told to stop.
        """
        if not self.writes:
            return
        path = self._checkpoints.path(kind, state.step)
        save_checkpoint(model, path, dataclasses.asdict(state))
        # Only now: until the new one is whole the old ones are needed.
        if kind == "step":
            self._checkpoints.prune(state.step, self.keep)

    def restore(self, model: keras.Model) -> RunState | None:
        """Loads the last good checkpoint into a compiled model, if any.

        A damaged one is reported, renamed, and left for the one before.

        Args:
            model: The compiled model.

        Returns:
            The progress of the run, or `None` where it has no checkpoint.

        Raises:
            InputError: if there are checkpoints and none can be used, or
                they are of a run that went otherwise.
        """
        if self.writes:
            self._checkpoints.tidy()
        damaged: dict[pathlib.Path, InputError] = {}
        for checkpoint in reversed(self._checkpoints.all()):
            try:
                state = load_checkpoint(model, checkpoint, RunState.from_json)
            except InputError as error:
                damaged[checkpoint] = error
                continue
            self._check_same_run(state.run)
            self._warn_of_earlier_version(checkpoint, state)
            # Not before one is good: a run without any is left as it is.
            for path, damage in damaged.items():
                self._set_aside(path, damage, checkpoint)
            return state
        if damaged:
            raise InputError(
                f"No checkpoint of {self.directory} can be used. The last: "
                f"{next(iter(damaged.values()))} Start anew with "
                "`--overwrite`, or elsewhere."
            )
        return None

    def _set_aside(
        self, damaged: pathlib.Path, error: InputError, good: pathlib.Path
    ) -> None:
        """Renames a damaged checkpoint, so that it no longer counts.

        As one of those that are kept it would have good ones deleted.
        """
        line = f"{error} Going on from {good.name}, the one before."
        if self.writes:
            aside = self._checkpoints.set_aside(damaged)
            line += f" It is {aside.name} now, and can be deleted."
        self.report(line)

    def _warn_of_earlier_version(
        self, checkpoint: pathlib.Path, state: RunState
    ) -> None:
        """Reports in one line what an earlier version did not write down."""
        lacks = []
        if self.run.keys() & _TEXTS.keys() - state.run.keys():
            lacks.append("no checksum of the texts, so they are not compared")
        if state.is_within_epoch and state.sums is None:
            lacks.append(
                "no sums of the epoch that it is in, so the next record is of "
                "the rest of it alone"
            )
        if lacks:
            self.report(
                f"{checkpoint.name} is of an earlier version: it has "
                f"{' and '.join(lacks)}."
            )

    def _check_same_run(self, run: dict[str, Any]) -> None:
        for name in {**self.run, **run}:
            before, now = run.get(name), self.run.get(name)
            if before is None and name in _TEXTS:
                continue
            if before != now and name in _TEXTS:
                raise InputError(
                    f"{_TEXTS[name]} must be the one that the run in "
                    f"{self.directory} was started with, in the same order "
                    "and with the same vocabulary: its token ids had the "
                    f"checksum {before}, now it is {now}. Bring back the text "
                    "of before, or train on this one in another `--output`."
                )
            if before != now:
                raise InputError(
                    f"The run in {self.directory} had {name} = {before}, now "
                    f"it is {now}: its batches would not be the same. "
                    f"{_WAYS_OUT.get(name, _WAYS_OUT['update_tokens'])}"
                )
