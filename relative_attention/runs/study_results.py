"""The results file of a study: a record of every run that is finished.

It is all that another machine needs to go on, and to write the table: it has
no text of the corpus, and counts of each test sentence for the bootstrap.
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.files import lock_file
from relative_attention.files import read_json_object
from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import run_name
from relative_attention.runs.study_record import check_record
from relative_attention.runs.study_values import as_text
from relative_attention.runs.study_values import first_difference

_FORMAT = 1
# What a run must have in common with all others of its table: what it is
# called, and how to get it.
_COMMON = {
    "precision": ("precision", "Force it by `training.precision={}`"),
    "steps": ("number of updates", "Force it by `training.steps={}`"),
    "signature": (
        "BLEU",
        "Install the sacreBLEU whose version the first names",
    ),
}


class StudyResults:
    """Reads and writes the results file of a study.

    Several processes may add to it.

    Args:
        path: The path of the file, which need not be there.
        study: The name of the study.
    """

    def __init__(self, path: pathlib.Path | str, study: str) -> None:
        self.path = pathlib.Path(path)
        self.study = study

    def runs(self) -> dict[str, RunRecord]:
        """Returns the records by `run_name`; none where there is no file.

        Raises:
            InputError: if it is the file of another study, or damaged.
        """
        return self._read()["runs"]

    def add(self, record: RunRecord) -> None:
        """Adds the record of a run.

        Raises:
            InputError: if it has another precision than the runs before, or
                another number of updates; nothing is written then.
        """
        with self._locked():
            content = self._read()
            check_common(record, content["runs"], self.path)
            content["runs"][run_name(record["row"], record["seed"])] = record
            self._write(content)

    def write_table(
        self, make: Callable[[dict[str, RunRecord]], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Replaces the table that follows from the records, and returns it.

        Args:
            make: A function of the records that returns the table. Nobody adds
                a record until it has returned.
        """
        with self._locked():
            content = self._read()
            content["table"] = make(content["runs"])
            self._write(content)
        return content["table"]

    def check_writable(self) -> None:
        """Refuses a place that no record could be written to.

        Raises:
            InputError: if the folder allows no files.
        """
        folder = self.path.resolve().parent
        while not folder.exists():
            folder = folder.parent
        if folder.is_dir() and os.access(folder, os.W_OK):
            return
        raise InputError(
            f"{self.path} cannot be written, as {folder} allows no files. Give "
            "another `--results`, into which what is there may be copied."
        )

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"format": _FORMAT, "study": self.study, "runs": {}}
        try:
            content = _read_results(self.path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.path} is damaged: {error}. Put an earlier one back, or "
                "give another `--results`."
            ) from error
        if content.get("study") != self.study:
            raise InputError(
                f"{self.path} does not hold results of the study "
                f"{self.study!r}. Give another `--results`."
            )
        return content

    def _write(self, content: dict[str, Any]) -> None:
        with atomic_file(self.path, "w") as file:
            json.dump(content, file, indent=1)
            file.write("\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps others from writing between reading and writing."""
        folder = self.path.resolve().parent
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            # The folder's lock leaves no file; where there are no such locks
            # it goes without.
            with contextlib.suppress(OSError):
                descriptor = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                lock_file(descriptor, wait=True)
            yield


def _read_results(path: pathlib.Path) -> dict[str, Any]:
    """Reads the results file of some study.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, or holds something else.
    """
    content = read_json_object(path)
    runs = content.get("runs")
    if content.get("format") != _FORMAT or not isinstance(runs, dict):
        raise ValueError("it holds no runs of a study")
    for name, record in runs.items():
        try:
            check_record(record)
        except ValueError as error:
            raise ValueError(f"of its run {name} {error}") from error
    return content


def common_values(record: RunRecord) -> dict[str, Any]:
    """Returns what is known of a run that all of its table must have.

    Args:
        record: The record of a run, or what is known of it before it is run.
    """
    signature = record.get("test", {}).get("signature")
    values = {**record, "signature": signature}
    return {n: values[n] for n in _COMMON if values.get(n) is not None}


def check_common(
    record: RunRecord,
    runs: dict[str, RunRecord],
    path: pathlib.Path,
    reason: str = "",
) -> None:
    """Refuses a run that differs from the others of its table.

    Args:
        record: A dict with what is known of the run.
        runs: What is known of the others, by `run_name`.
        path: The path of the results file, for the error.
        reason: Why the run has its precision, `" (...)"`.

    Raises:
        InputError: if its precision, its number of updates or the signature of
            its BLEU differs.
    """
    own = common_values(record)
    for other in map(common_values, runs.values()):
        for name in _COMMON:
            both = name in own and name in other
            if both and own[name] != other[name]:
                said, way_out = _COMMON[name]
                run = run_name(record["row"], record["seed"])
                why = reason if name == "precision" else ""
                raise InputError(
                    f"One table has one {said}: other runs of {path} have "
                    f"{other[name]}, {run} has {own[name]}{why}. "
                    f"{way_out.format(other[name])}, or begin another table "
                    "with `--results`."
                )


def check_values(
    name: str,
    found: dict[str, Any],
    asked: dict[str, Any],
    path: pathlib.Path,
) -> None:
    """Refuses a results file whose run had another recipe.

    Args:
        name: What the run is called.
        found: `deciding_values` of the record.
        asked: Those that the study asks for.
        path: The path of the results file.

    Raises:
        InputError: if they differ; the first key is named.
    """
    difference = first_difference(found, asked)
    if difference is not None:
        key, before, now = difference
        raise InputError(
            f"In {path} the run {name} has `{key}` {before!r}, and the study "
            f"asks for {now!r}. Take it back by `{key}={as_text(before)}`, or "
            "begin another table with `--results`."
        )


def equal_runs(
    asked: dict[str, Any], common: RunRecord, path: pathlib.Path
) -> Iterator[RunRecord]:
    """Yields finished runs of the same recipe in results beside these.

    Tables of one paper share rows, which need not be trained twice.

    Args:
        asked: `deciding_values` of the recipe.
        common: What is known of another run of the table, which it must have
            in common; see `common_values`.
        path: The path of the results file, which is looked at, too.

    Yields:
        Records, with `taken_from`.
    """
    for file in sorted(path.parent.glob("*.json")):
        try:
            content = _read_results(file)
        except (OSError, ValueError):
            continue
        for name, record in content["runs"].items():
            found = common_values(record)
            if all(
                found.get(n) == value
                for n, value in common_values(common).items()
            ) and not first_difference(record["values"], asked):
                # Of a run that was taken itself, where it was trained.
                origin = f"{content.get('study')}: {name}"
                yield {"taken_from": origin, **record}
