"""Trains the missing runs of a study, and keeps a record of each run.

    run_study
      study_runs         the runs of a study: rows and seeds
      _missing           those without a record, after all checks
      _train_all         the command `train` for each of them, some at a time
      StudyRun.record    what the table needs of a finished run
      StudyResults.write adds the record, and writes the table of all records

A run is an ordinary one in the folder `OUTPUT/ROW-SEED`, with its recipe and
its log next to it. It is done when its `results.json` is there, which `train`
writes last; its record is computed from that folder and kept in `NAME.json`,
the results of the study. The same command resumes an interrupted study: runs
with a record are left out, and `train --resume auto` continues the others.
"""

import contextlib
import dataclasses
import json
import operator
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tabulate

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import count_lines
from relative_attention.errors import InputError
from relative_attention.evaluation.significance import SentenceStatistics
from relative_attention.files import atomic_file
from relative_attention.files import locked_directory
from relative_attention.files import read_json_object
from relative_attention.layers.positions import own_module
from relative_attention.plot import study_figure
from relative_attention.plot.figure import save_figure
from relative_attention.recipes import Recipe
from relative_attention.recipes.recipe import AUTO
from relative_attention.recipes.recipe import values_by_key
from relative_attention.runs.callbacks import StopSignals
from relative_attention.runs.corpus_defaults import CHOSEN_KEYS
from relative_attention.runs.corpus_defaults import choose_values
from relative_attention.runs.precision import choose_precision
from relative_attention.runs.report import Report
from relative_attention.runs.report import bleu_tokenizer
from relative_attention.runs.report import print_error
from relative_attention.runs.run_directory import recorded_files
from relative_attention.runs.texts import find_corpus
from relative_attention.schema import unknown
from relative_attention.studies.study import Study
from relative_attention.studies.study import as_text
from relative_attention.studies.study import deciding_values
from relative_attention.studies.study import first_difference
from relative_attention.studies.table import Record
from relative_attention.studies.table import study_markdown
from relative_attention.studies.table import study_table
from relative_attention.zoo import is_installed
from relative_attention.zoo import studies_directory

_FORMAT = 1
_SECONDS_BETWEEN_LOOKS = 0.1
# The command `train`, which ends with this process.
_CHILD = (
    "import sys; from relative_attention.cli import main, train; "
    "train.stop_with_parent(); sys.exit(main())"
)
# The entries of a record that table and list read.
_KINDS: dict[str, Any] = {
    "row": str,
    "seed": int,
    "values": dict,
    "precision": str,
    "steps": int,
    "minutes": int | float,
    "test.bleu": int | float,
    "test.bleu_lowercased": int | float,
    "test.signature": str,
    "test.counts": str,
    "validation": dict,
}


@dataclasses.dataclass(frozen=True)
class StudyRun:
    """A run of a study: its recipe and its folder."""

    row: str
    seed: int
    recipe: Recipe
    output: str
    data_directory: str | None = None
    same_as: str | None = None

    @property
    def name(self) -> str:
        """The name of the run and its folder."""
        return f"{self.row}-{self.seed}"

    def path(self, ending: str = "") -> pathlib.Path:
        """Returns the folder of the run, or a file next to it."""
        return pathlib.Path(self.output, f"{self.name}{ending}")

    def test_corpus(self) -> ParallelCorpus:
        """Returns the test text as found on this machine."""
        # A finished run has recorded where its texts are.
        known = recorded_files(self.path(), self.data_directory)
        texts = find_corpus(self.recipe.data, self.data_directory, known)
        corpus = ParallelCorpus(str(texts.test_source), str(texts.test_target))
        # A missing or unequal text must fail now, not after hours of training.
        corpus.check()
        return corpus

    def resolved(self) -> "StudyRun":
        """Returns the run with a number for each `auto` of its recipe."""
        values = values_by_key(self.recipe)
        keys = [key for key in CHOSEN_KEYS if values.get(key) == AUTO]
        # A run that has all its numbers is returned as it is.
        if not keys:
            return self
        known = recorded_files(self.path(), self.data_directory)
        texts = find_corpus(self.recipe.data, self.data_directory, known)
        # As the run itself will choose: its record has these numbers.
        chosen = choose_values(self.recipe, count_lines(str(texts.source)))
        recipe = self.recipe.replace({key: chosen[key] for key in keys})
        return dataclasses.replace(self, recipe=recipe)

    def check_same(
        self, values: Mapping[str, Any], holder: object, way_out: str
    ) -> None:
        """Refuses a run of another recipe than the study's."""
        now = deciding_values(self.recipe)
        # A record has what was chosen for its corpus.
        chosen = [key for key in CHOSEN_KEYS if now.get(key) == AUTO]
        # Only what affects the result counts: paths and devices may differ.
        found = first_difference(
            {k: v for k, v in values.items() if k not in chosen},
            {k: v for k, v in now.items() if k not in chosen},
        )
        if found is not None:
            key, before, now = found
            raise InputError(
                f"In {holder} the run {self.name} has `{key}` {before!r}, and "
                f"the study asks for {now!r}. Undo the change with "
                f"`{key}={as_text(before)}`, or {way_out}."
            )

    def record(self) -> Record | None:
        """Returns the record of a finished run, computed from its folder."""
        # `None` also if results are damaged, which `train` writes again.
        try:
            # It is written last, so a run that has it is finished.
            results = read_json_object(self.path() / "results.json")
            curve, scores = results.pop("curve"), results.pop("scores")
            test = {
                "signature": scores["test"]["bleu_signature"],
                "counts": results.pop("test_counts"),
            }
            # With more digits than the run's score.
            bleu = round(SentenceStatistics.from_json(test).score(), 4)
            losses = [one["val_loss"] for one in curve if "val_loss" in one]
            record = {
                "row": self.row,
                "seed": self.seed,
                "values": deciding_values(self.recipe),
                **results,
                "test": {
                    "bleu": bleu,
                    "bleu_lowercased": scores["test"]["bleu_lowercased"],
                    **test,
                },
                "validation": {
                    "bleu": scores["validation"]["bleu"],
                    "loss": min(losses, default=None),
                },
            }
            _check_record(record)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        # Outside of the `try`: a run of another recipe is an error of the user.
        trained = Recipe.load(self.path() / "recipe.yaml")
        self.check_same(
            deciding_values(trained), self.output, "move the run away"
        )
        return record


@dataclasses.dataclass(frozen=True)
class StudyResults:
    """The results file of a study: a record of every finished run.

    It is all that another machine needs to resume and to make the table.
    Several processes may add to it.
    """

    study: Study
    path: pathlib.Path

    def read(self) -> dict[str, Record]:
        """Returns the records by the name of the run.

        Raises:
            InputError: if the file is damaged or of another study.
        """
        # A new study has no file yet; a damaged one must not pass for it.
        if not self.path.exists():
            return {}
        try:
            name, records = _read_results(self.path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.path} is damaged: {error}. Put an earlier one back, or "
                "give another `--results`."
            ) from error
        # Two studies may have rows and seeds of the same names.
        if name != self.study.name:
            raise InputError(
                f"{self.path} does not hold results of the study "
                f"{self.study.name!r}. Give another `--results`."
            )
        return records

    def write(self, record: Record | None = None) -> list[dict[str, Any]]:
        """Writes and returns the table, with a new record if one is given.

        Raises:
            InputError: if the record does not fit the table, or the files
                cannot be written.
        """
        folder = self.path.resolve().parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # No other process writes between reading and writing.
            with locked_directory(folder):
                records = self.read()
                if record is not None:
                    # Inside the lock: another process may have added records.
                    self.check_fits(record, records)
                    records[f"{record['row']}-{record['seed']}"] = record
                # Made again each time, as one record changes means and
                # differences.
                table = study_table(self.study, records)
                content = {
                    "format": _FORMAT,
                    "study": self.study.name,
                    "runs": records,
                    "table": table,
                }
                with atomic_file(self.path, "w") as file:
                    file.write(f"{json.dumps(content, indent=1)}\n")
                # After the records, from which it can always be made again.
                with atomic_file(self.path.with_suffix(".md"), "w") as file:
                    file.write(study_markdown(self.study, table, records))
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error}. Give another "
                "`--results`, to which you may copy the existing file."
            ) from error
        return table

    def check_fits(self, record: Record, records: Mapping[str, Record]) -> None:
        """Refuses a record that cannot be compared with the others."""
        for name, other in records.items():
            problem = _misfit(record, other)
            if problem is not None:
                raise InputError(
                    f"{record['row']}-{record['seed']} does not fit beside "
                    f"{name} of {self.path}: {problem}, or begin another table "
                    "with `--results`."
                )

    def shared_record(
        self, run: StudyRun, expected: Record, report: Report
    ) -> Record | None:
        """Returns the record of the same run of another study, if it has one.

        This is the run of the row `same_as`. If it has other values, as by an
        assignment on the command line, a run is trained here.
        """
        if run.same_as is None:
            return None
        # Both were checked when the study was read.
        study, row = run.same_as.split(":")
        origin = f"{study}: {row}-{run.seed}"
        try:
            # The other study may not be begun: then the run is trained here.
            _, records = _read_results(self.path.with_name(f"{study}.json"))
        except (OSError, ValueError):
            return None
        record = records.get(f"{row}-{run.seed}")
        if record is None:
            return None
        if _misfit(record, expected) or first_difference(
            record["values"], expected["values"]
        ):
            report(f"{run.name}: not taken from {origin}, which is another run")
            return None
        own = {"row": run.row, "seed": run.seed}
        # A record that was itself taken from a study keeps that origin.
        return {"taken_from": origin, **record, **own}


def run_study(
    study: Study,
    output: pathlib.Path | str | None = None,
    data_directory: pathlib.Path | str | None = None,
    results: pathlib.Path | str | None = None,
    num_jobs: int = 1,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    report: Report | None = None,
) -> list[dict[str, Any]]:
    """Trains the missing runs of a study, and writes its table and picture.

    Each run is an ordinary `train` in its own process, in `output/ROW-SEED`.
    An existing run is resumed, or used if it is finished. After each run, its
    record is added to the results file, and the table is written next to it as
    Markdown; at the end a picture, too, if `matplotlib` is installed. Runs in
    the results file are not trained again, even if their folders are gone.

    Args:
        study: A `Study`.
        output: The path of the folder of the runs. Defaults to `runs/NAME`.
        data_directory: The path of a folder with the texts; see
            `find_corpus`. Defaults to `None`.
        results: The path of the results file. Defaults to `NAME.json`, next to
            the study in a checkout, else in `output`.
        num_jobs: How many runs to train at a time.
        rows: Names of the rows to train. Defaults to `None`, all.
        seeds: Seeds to train with. Defaults to `None`, all.
        report: A function to call with each line for the log. Defaults to
            printing to standard error.

    Returns:
        A list of dicts, the table: one per row of the study.

    Raises:
        InputError: before any work, if a text is missing, a finished run has
            another recipe, precision or test text, or the results file cannot
            be written; or if a run failed, after the others have ended.
        KeyboardInterrupt, SystemExit: on SIGINT or SIGTERM, after each run
            has saved a checkpoint.
    """
    if num_jobs < 1:
        raise InputError(
            f"`num_jobs` must be at least 1. Received: {num_jobs}."
        )
    # Each run would wait for the others to connect, for ever.
    if os.environ.get("TF_CONFIG"):
        raise InputError(
            "Each run of a study uses one machine. Unset TF_CONFIG, and give "
            "each machine some rows or seeds, by `--rows` and `--seeds`."
        )
    report = report or print_error
    results_file = StudyResults(study, results_path(study, output, results))
    # The rows of other machines stay in the table.
    runs = study_runs(study, output, data_directory, rows, seeds)
    left = _missing(runs, _own_records(results_file), results_file, report)
    # Here, too, so that a file that cannot be written is an early error.
    results_file.write()
    failed = _train_all(left, num_jobs, results_file, report)
    table = results_file.write()
    # Once, at the end: a picture takes seconds.
    _draw(study, table, results_file.path.with_suffix(".png"))
    # At the end, so that one failure does not stop the others.
    if failed:
        raise InputError(
            f"{len(failed)} of {len(left)} runs failed: "
            f"{', '.join(run.name for run in failed)}. Their logs in "
            f"{failed[0].output} say why; the same command tries again."
        )
    return table


def results_path(
    study: Study,
    output: pathlib.Path | str | None = None,
    results: pathlib.Path | str | None = None,
) -> pathlib.Path:
    """Returns the path of the results file; see `run_study`."""
    if results is not None:
        path = pathlib.Path(results)
    # Results of the package's studies are committed beside them.
    elif study.comes_with_package and not is_installed():
        path = studies_directory() / f"{study.name}.json"
    else:
        path = pathlib.Path(_output(study, output), f"{study.name}.json")
    # Table and picture get this name with another ending.
    if path.suffix != ".json" or path.is_dir():
        raise InputError(
            "`--results` must be the name of a `.json` file; table and "
            f"picture are written beside it. Received: {path}."
        )
    return path


def study_runs(
    study: Study,
    output: pathlib.Path | str | None = None,
    data_directory: pathlib.Path | str | None = None,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[StudyRun]:
    """Returns the runs of a study, or of some of its rows and seeds.

    The first seed of every row comes first, so that an interrupted study has
    all rows. See `run_study` for the arguments.
    """
    names = [row.name for row in study.rows]
    numbers = sorted({seed for row in study.rows for seed in row.seeds})
    for what, chosen, known in (("row", rows, names), ("seed", seeds, numbers)):
        # A misspelt row would otherwise train nothing, without a word.
        for name in chosen or []:
            if name not in known:
                raise InputError(unknown(what, name, list(map(str, known))))
    folder = _output(study, output)
    data = None if data_directory is None else str(data_directory)
    runs = []
    for row in study.rows:
        for turn, seed in enumerate(row.seeds):
            if (rows is None or row.name in rows) and (
                seeds is None or seed in seeds
            ):
                recipe = study.recipe_for(row, seed)
                run = StudyRun(
                    row.name, seed, recipe, folder, data, row.same_as
                )
                runs.append((turn, run))
    # A stable sort by turn keeps the order of the rows.
    return [run for _, run in sorted(runs, key=operator.itemgetter(0))]


def study_list(
    study: Study,
    output: pathlib.Path | str | None = None,
    results: pathlib.Path | str | None = None,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> str:
    """Lists the runs of a study: those done, their cost, and those left."""
    results_file = StudyResults(study, results_path(study, output, results))
    records = _own_records(results_file)
    runs = study_runs(study, output, None, rows, seeds)
    cells, minutes = [], []
    for run in runs:
        # A run that another call has finished may have no record yet.
        record = records.get(run.name) or run.record()
        if record is None:
            state = "begun" if run.path().exists() else "left"
            cells.append([run.name, state, "", ""])
            continue
        origin = record.get("taken_from")
        # The time of a shared run is counted by the study that trained it.
        minutes.append(0 if origin else record["minutes"])
        state = f"as {origin}" if origin else "done"
        bleu, took = record["test"]["bleu"], record["minutes"]
        cells.append([run.name, state, f"{bleu:.2f}", f"{took:.1f}"])
    table = tabulate.tabulate(
        cells,
        ["run", "state", "BLEU", "minutes"],
        tablefmt="plain",
        colalign=["left", "left", "right", "right"],
        disable_numparse=True,
    )
    return (
        f"{table}\n\n{len(minutes)} of {len(runs)} runs are done, in "
        f"{sum(minutes):,.0f} minutes; {len(runs) - len(minutes)} left.\n"
        f"results: {results_file.path}"
    )


def _output(study: Study, output: pathlib.Path | str | None) -> str:
    return str(output or pathlib.Path("runs", study.name))


def _own_records(results_file: StudyResults) -> dict[str, Record]:
    """Returns the records of a study; refuses one of another recipe."""
    records = results_file.read()
    # All rows and seeds, not only those asked for: they share a table.
    for run in study_runs(results_file.study):
        if run.name in records:
            values = records[run.name]["values"]
            run.check_same(
                values, results_file.path, "give another `--results`"
            )
    return records


def _missing(
    runs: Sequence[StudyRun],
    records: Mapping[str, Record],
    results_file: StudyResults,
    report: Report,
) -> list[StudyRun]:
    """Returns the runs to train, after checking that all can be trained.

    Runs that are already done are added to the results: finished ones whose
    record is not there, and those of another study that a row is `same_as`.
    """
    left = []
    for run in runs:
        if run.name in records:
            continue
        run = run.resolved()
        # Read for all runs first, so that a missing text ends no training.
        references = [target for _, target in run.test_corpus()]
        tokenize = bleu_tokenizer(run.recipe.data, references)
        test = SentenceStatistics.of_texts(references, references, tokenize)
        # What a record must match. `test` is for signature and text, no result.
        expected = {
            "row": run.row,
            "seed": run.seed,
            "values": deciding_values(run.recipe),
            "precision": choose_precision(run.recipe.training.precision)[0],
            "test": test.to_json(),
        }
        record = run.record() or results_file.shared_record(
            run, expected, report
        )
        if record is None:
            results_file.check_fits(expected, records)
            left.append(run)
        else:
            results_file.write(record)
            origin = record.get("taken_from", run.path())
            report(f"{run.name}: taken from {origin}")
    return left


def _train_all(
    left: Sequence[StudyRun],
    num_jobs: int,
    results_file: StudyResults,
    report: Report,
) -> list[StudyRun]:
    """Trains runs until all have ended, and returns those that failed.

    SIGINT and SIGTERM are passed on once, so that each run saves a checkpoint.
    This process ends after the last run.
    """
    waiting, failed = list(left), []
    running: list[tuple[StudyRun, subprocess.Popen[bytes]]] = []
    with StopSignals() as signals:
        try:
            while waiting or running:
                # Nothing new is started; `finally` ends those that run.
                if signals.received is not None:
                    signals.leave()
                while waiting and len(running) < num_jobs:
                    run = waiting.pop(0)
                    # Another process may have trained it in the meantime.
                    if run.name in results_file.read():
                        continue
                    running.append((run, _start(run, num_jobs)))
                    report(
                        f"{run.name}: started; {len(waiting)} wait; its log is "
                        f"{run.path('.log')}"
                    )
                for run, process in running[:]:
                    if process.poll() is None:
                        continue
                    process.communicate()  # Closes its standard input.
                    # Removed first: `finally` would otherwise end it again.
                    running.remove((run, process))
                    try:
                        _add(run, process.returncode, results_file, report)
                    # One failure must not end the others, which may take hours.
                    except InputError as error:
                        failed.append(run)
                        report(f"{run.name}: {error}")
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            for _, process in running:
                # All are told first, so that they save at the same time.
                process.terminate()
            for _, process in running:
                process.wait()
                process.communicate()
    return failed


def _start(run: StudyRun, num_jobs: int) -> subprocess.Popen[bytes]:
    # The child finds modules in the same places as this process.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    if num_jobs > 1:
        # Otherwise each run would use all cores, and all would be slower.
        threads = max((os.cpu_count() or 1) // num_jobs, 1)
        environment.setdefault("TF_NUM_INTRAOP_THREADS", str(threads))
        # Otherwise the first process takes most memory of a GPU.
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    recipe, log = run.path(".yaml"), run.path(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    # The child reads its recipe from a file, `auto` replaced by numbers.
    run.recipe.save(recipe)
    # With `auto` the same words begin a run and resume it.
    words = ["train", str(recipe), f"--output={run.path()}", "--resume=auto"]
    if run.data_directory is not None:
        words.append(f"--data={run.data_directory}")
    # This process has imported it, or the recipe would have been refused.
    module = own_module(run.recipe.model.get("position_encoding"))
    if module is not None:
        words.append(f"--module={module}")
    # Appended, as a resumed run continues its log.
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, "-c", _CHILD, *words],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env=environment,
            # Ctrl-C goes to all processes of a terminal. A second signal,
            # passed on from here, would end a run at once.
            start_new_session=True,
        )


def _add(
    run: StudyRun, status: int, results_file: StudyResults, report: Report
) -> None:
    """Adds the record of a finished run.

    Raises:
        InputError: if it failed, with the last line of its log.
    """
    record = None if status else run.record()
    if record is None:
        log = run.path(".log").read_text("utf-8", errors="replace")
        # A command that fails says why in its last line.
        last = log.strip().rpartition("\n")[2]
        raise InputError(
            f"failed with status {status}: "
            f"{last.removeprefix('relative-attention: ')}"
        )
    results_file.write(record)
    report(
        f"{run.name}: BLEU {record['test']['bleu']:.2f} on the test text, "
        f"{record['minutes']:.1f} minutes"
    )


def _read_results(path: pathlib.Path) -> tuple[Any, dict[str, Record]]:
    """Returns the name of a study, and its records by the name of the run.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is damaged or holds something else.
    """
    content = read_json_object(path)
    records = content.get("runs")
    # A later version may write what this one would misread.
    if content.get("format") != _FORMAT or not isinstance(records, dict):
        raise ValueError("it holds no runs of a study")
    for name, record in records.items():
        try:
            _check_record(record)
        except ValueError as error:
            raise ValueError(f"of its run {name} {error}") from error
    return content.get("study"), records


def _check_record(record: Any) -> None:
    """Raises `ValueError` if a record lacks an entry that is read."""
    for name, kinds in _KINDS.items():
        value = record
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if not isinstance(value, kinds):
            raise ValueError(f"`{name}` is {value!r}")
    # The counts must be readable, too: the bootstrap needs them.
    SentenceStatistics.from_json(record["test"])


def _misfit(record: Record, other: Record) -> str | None:
    """Returns why two records cannot be in one table, and the way out."""
    precision = other["precision"]
    if record["precision"] != precision:
        return (
            f"its precision is {record['precision']}, not {precision}. Force "
            f"it by `training.precision={precision}`"
        )
    signature = other["test"]["signature"]
    if record["test"]["signature"] != signature:
        return f"its BLEU is not {signature}. Install that sacreBLEU"
    texts = [one["values"].get("data.test_target") for one in (record, other)]
    own, others = (
        SentenceStatistics.from_json(r["test"]) for r in (record, other)
    )
    # Rows on texts of other names are never compared with one another.
    if texts[0] == texts[1] and not own.has_text_of(others):
        return (
            f"its test text {texts[0]} is another. Give the `--data` that the "
            "finished runs had"
        )
    return None


def _draw(
    study: Study, table: list[dict[str, Any]], path: pathlib.Path
) -> None:
    """Writes the picture of the table, once a run is finished."""
    # Without matplotlib there is none.
    with contextlib.suppress(InputError):
        if any(row["bleu"] for row in table):
            # Without its section: max relative position.
            axis = study.axis and study.axis.split(".")[-1].replace("_", " ")
            save_figure(study_figure(table, axis=axis), path)
