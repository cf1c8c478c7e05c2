"""The checkpoints of a run, among whatever else their folder holds."""

import pathlib
import re
from typing import Any

from relative_attention.files import delete_directory
from relative_attention.files import recover_directory

_NAME = re.compile(r"(?P<kind>step|stop)-(?P<step>\d+)")
# What was being written, replaced or deleted when a process died.
_TORN = re.compile(rf"\.(?P<name>{_NAME.pattern})-(\w{{8}}(-old|-gone)?|gone)")


class RunCheckpoints:
    """Finds, sets aside and deletes the checkpoints of a run.

    `step-00001000` is a checkpoint, `stop-00001234` one of a run that was
    told to stop. Whatever has another name, such as `.DS_Store` or the
    `.nfs...` of a network disk, is not touched.

    Args:
        directory: path of the run.
    """

    def __init__(self, directory: str | pathlib.Path) -> None:
        self.directory = pathlib.Path(directory) / "checkpoints"

    def path(self, kind: str, step: int) -> pathlib.Path:
        """Returns where the checkpoint of a step is or would be."""
        return self.directory / f"{kind}-{step:08}"

    def steps(self) -> list[pathlib.Path]:
        """Returns the folders of the checkpoints, the oldest first."""
        return [path for path in self.all() if path.name.startswith("step")]

    def all(self) -> list[pathlib.Path]:
        """Returns all folders, those of runs that were told to stop too.

        One that a process was replacing when it died is put back.
        """
        for torn in self._paths(_TORN):
            match: Any = _TORN.fullmatch(torn.name)
            recover_directory(self.directory / match["name"])
        found = [path for path in self._paths(_NAME) if path.is_dir()]
        return sorted(found, key=lambda path: (_step(path), path.name))

    def all_steps(self) -> list[int]:
        """Returns the steps of all checkpoints, the oldest first."""
        return [_step(path) for path in self.all()]

    def tidy(self) -> None:
        """Deletes what a process that died was writing or deleting.

        Only for the process that writes the run.
        """
        # What can be put back is no longer among them then.
        self.all()
        for torn in self._paths(_TORN):
            delete_directory(torn)

    def set_aside(self, checkpoint: pathlib.Path) -> pathlib.Path:
        """Renames a damaged one, so that it counts for nothing.

        Returns:
            `pathlib.Path`, where it is now.
        """
        aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
        if aside.exists():
            delete_directory(aside)
        return checkpoint.rename(aside)

    def prune(self, step: int, keep: int) -> None:
        """Deletes all but the last ones, after that of a step was written.

        Args:
            step: int. That of the one just written, which stays.
            keep: int. How many stay, that one included.
        """
        written = [path for path in self.steps() if _step(path) <= step]
        stops = [path for path in self.all() if path.name.startswith("stop")]
        for path in [*stops, *written[:-keep]]:
            delete_directory(path)

    def _paths(self, pattern: re.Pattern[str]) -> list[pathlib.Path]:
        if not self.directory.is_dir():
            return []
        return [
            path
            for path in self.directory.iterdir()
            if pattern.fullmatch(path.name)
        ]


def _step(path: pathlib.Path) -> int:
    match: Any = _NAME.fullmatch(path.name)
    return int(match["step"])
