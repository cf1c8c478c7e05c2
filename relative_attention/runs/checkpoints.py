"""What a run saves to be resumed, and to average at its end."""

import dataclasses
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import keras

from relative_attention.errors import InputError
from relative_attention.models.weights import save_weights
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.training.checkpoint import RunCheckpoints
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint
from relative_attention.training.logs import Record

# The checksums of the texts among what must stay the same. Runs of an earlier
# version have none.
TRAIN_IDS, VALIDATION_IDS = "train_ids", "validation_ids"
_TEXTS = {
    TRAIN_IDS: "The text to train on (`data.source`, `data.target`)",
    VALIDATION_IDS: "The validation text",
}
# What else must stay the same, and how to get it back.
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


@dataclasses.dataclass(frozen=True)
class RunState:
    """How far a run had come when its checkpoint was saved.

    Attributes:
        step: The number of updates done.
        history: A list of records, one for each validation.
        unvalidated: The logs of an epoch that was left before its validation
            ended, or `None`.
        seconds: The time that the run had taken, over all its parts.
        run: A dict of what must be the same when the run is resumed.
        sums: A list of floats, the variables of the model's metrics in the
            middle of an epoch, else `None`. Earlier versions kept none.
        logs: The results of these metrics, or `None`.
    """

    step: int
    history: list[Record]
    unvalidated: Record | None
    seconds: float
    run: dict[str, Any]
    sums: list[float] | None = None
    logs: Record | None = None

    @property
    def is_within_epoch(self) -> bool:
        """Whether updates were done whose validation is not due yet."""
        validated = self.history[-1]["step"] if self.history else 0
        return self.unvalidated is None and self.step > validated

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "RunState":
        """Returns the state that JSON gave back, without keys of old."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: content[name] for name in names & content.keys()})


class Checkpointer:
    """Saves the checkpoints of a run, and restores the last good one.

    A checkpoint is a folder, `checkpoints/step-00001000`. That of a run that
    was told to stop is called `checkpoints/stop-00001234`, and is deleted
    when the next one is saved.

    Args:
        directory: The path of the run.
        keep: An integer, how many checkpoints are kept. Defaults to `5`.
        run: A dict for JSON of what must be the same when the run is resumed.
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
        self.folders = RunCheckpoints(directory)

    def save(self, model: keras.Model, state: RunState, kind: str) -> None:
        """Saves a checkpoint, and deletes those that are no longer kept.

        Args:
            model: The compiled model.
            state: The progress of the run; its step names the folder.
            kind: `"step"`, or `"stop"` for a run that was told to stop.
        """
        if not self.writes:
            return
        path = self.folders.path(kind, state.step)
        save_checkpoint(model, path, dataclasses.asdict(state))
        # Only now, as the old ones are needed until the new one is whole.
        if kind == "step":
            self.folders.prune(state.step, self.keep)

    def restore(self, model: keras.Model) -> RunState | None:
        """Loads the last good checkpoint into a compiled model, if any.

        A damaged one is reported and renamed, and the one before is tried.

        Args:
            model: The compiled model.

        Returns:
            The progress of the run, or `None` where it has no checkpoint.

        Raises:
            InputError: if there are checkpoints and none can be used, or
                they are of a run with other batches.
        """
        if self.writes:
            self.folders.tidy()
        damaged: dict[pathlib.Path, InputError] = {}
        for checkpoint in reversed(self.folders.all()):
            try:
                content = load_checkpoint(model, checkpoint)
            except InputError as error:
                damaged[checkpoint] = error
                continue
            state = RunState.from_json(content)
            self._check_same_run(state.run)
            self._warn_of_earlier_version(checkpoint, state)
            # Only now: a run without a good one is left as it is.
            for path, damage in damaged.items():
                self._set_aside(path, damage, checkpoint)
            return state
        if damaged:
            raise InputError(
                f"No checkpoint of {self.directory} can be used. The last: "
                f"{next(iter(damaged.values()))} Start again with "
                "`--overwrite`, or elsewhere."
            )
        return None

    def _set_aside(
        self, damaged: pathlib.Path, error: InputError, good: pathlib.Path
    ) -> None:
        """Renames a damaged checkpoint: it must not count as one to keep."""
        lost = self.folders.step_of(damaged) - self.folders.step_of(good)
        line = (
            f"{error} Going on from {good.name}, the one before: {lost:,} "
            "updates are made again."
        )
        if self.writes:
            aside = self.folders.set_aside(damaged)
            line += f" It is {aside.name} now, and can be deleted."
        self.report(line)

    def _warn_of_earlier_version(
        self, checkpoint: pathlib.Path, state: RunState
    ) -> None:
        """Reports in one line what an earlier version did not save."""
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
            if before == now or (before is None and name in _TEXTS):
                continue
            if name in _TEXTS:
                raise InputError(
                    f"{_TEXTS[name]} must be the one that the run in "
                    f"{self.directory} was started with, in the same order "
                    "and with the same vocabulary: its token ids had the "
                    f"checksum {before}, now it is {now}. Bring back the text "
                    "of before, or train on this one in another `--output`."
                )
            raise InputError(
                f"The run in {self.directory} had {name} = {before}, now it "
                f"is {now}: its batches would not be the same. "
                f"{_WAYS_OUT.get(name, _WAYS_OUT['update_tokens'])}"
            )


class EpochWeights:
    """Keeps the weights at the ends of the last epochs, to be averaged.

    Files of weights alone, a third of a checkpoint or less:
    `epochs/step-00000580.safetensors`. An epoch here is a pass over the
    corpus; checkpoints are saved at other steps.

    A run may be resumed from any of its checkpoints, and end soon after, so
    the files that count at each of them are kept too.

    Args:
        directory: The path of the run.
        keep: An integer, how many are averaged; with `0` none is written.
        is_epoch_end: A function of a number of updates done that returns
            whether an epoch ends with them.
    """

    def __init__(
        self,
        directory: pathlib.Path | str,
        keep: int,
        is_epoch_end: Callable[[int], bool],
    ) -> None:
        self.directory = pathlib.Path(directory) / "epochs"
        self.keep = keep
        self.is_epoch_end = is_epoch_end

    def save(self, model: keras.Model, step: int) -> bool:
        """Writes the weights if an epoch ends with this step.

        Call it before a checkpoint of the step is saved: a run that resumes
        there does not pass the step again.

        Args:
            model: The model.
            step: An integer, the number of updates done.

        Returns:
            Whether they were written.
        """
        if not self.keep or not self.is_epoch_end(step):
            return False
        self.directory.mkdir(exist_ok=True)
        name = f"step-{step:08}.safetensors"
        save_weights(model.weights, self.directory / name)
        return True

    def last(self, step: int) -> list[pathlib.Path]:
        """Returns the files of the last epochs up to a step, oldest first."""
        return self._files(step)[-self.keep :] if self.keep else []

    def prune(self, step: int, checkpoints: Iterable[int]) -> None:
        """Deletes the files that count neither now nor at a checkpoint.

        Args:
            step: An integer, the number of updates done.
            checkpoints: Integers, the steps of the checkpoints.
        """
        needed = {
            path for end in (step, *checkpoints) for path in self.last(end)
        }
        for path in self._files(step):
            if path not in needed:
                path.unlink()

    def _files(self, step: int) -> list[pathlib.Path]:
        """Returns the files up to a step; later ones a crash has undone."""
        if not self.directory.is_dir():
            return []
        found = []
        for path in self.directory.iterdir():
            match = re.fullmatch(r"step-(\d+)\.safetensors", path.name)
            if match and int(match[1]) <= step:
                found.append((int(match[1]), path))
        return [path for _, path in sorted(found)]
