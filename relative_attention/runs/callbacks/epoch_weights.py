"""The weights at the ends of the last passes over the corpus."""

import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import keras

from relative_attention.models.weights import save_weights

_NAME = re.compile(r"step-(\d+)\.safetensors")


class EpochWeights:
    """Keeps the weights of the last epochs of a run, to be averaged.

    They are files of weights alone, a third of a checkpoint or less, beside
    the checkpoints: `epochs/step-00000580.safetensors`. Checkpoints come when
    validations or the clock ask for them, these when an epoch ends.

    A run may go on from any of its checkpoints, and end soon after. So the
    files that count at each of them are kept too.

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

    def save(self, model: keras.Model, step: int) -> None:
        """Writes the weights if an epoch ends with this step.

        To be called before a checkpoint of the step is saved: a run that goes
        on from there does not come by again.

        Args:
            model: The model.
            step: An integer, the number of updates that are done.
        """
        if self.keep and self.is_epoch_end(step):
            self.directory.mkdir(exist_ok=True)
            name = f"step-{step:08}.safetensors"
            save_weights(model.weights, self.directory / name)

    def last(self, step: int) -> list[pathlib.Path]:
        """Returns the files of the last epochs, the oldest first.

        Args:
            step: An integer. What a crash undid, of later steps, is no part
                of the run.
        """
        return self._files(step)[-self.keep :] if self.keep else []

    def prune(self, step: int, checkpoints: Iterable[int]) -> None:
        """Deletes what counts neither at a step nor at a checkpoint.

        What ended between them comes by again in a run that goes on.

        Args:
            step: An integer, the number of updates that are done.
            checkpoints: Integers, the steps of the checkpoints.
        """
        if not self.keep:
            return
        needed = {
            path for end in (step, *checkpoints) for path in self.last(end)
        }
        for path in self._files(step):
            if path not in needed:
                path.unlink()

    def _files(self, step: int) -> list[pathlib.Path]:
        """Returns the files up to a step, the oldest first."""
        found: list[tuple[int, pathlib.Path]] = []
        if self.directory.is_dir():
            for path in self.directory.iterdir():
                match: Any = _NAME.fullmatch(path.name)
                if match and int(match[1]) <= step:
                    found.append((int(match[1]), path))
        return [path for _, path in sorted(found)]
