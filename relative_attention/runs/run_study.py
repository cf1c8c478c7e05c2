"""Runs a study: what is missing of it, then its table and its picture."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.plot import check_matplotlib
from relative_attention.plot import save_figure
from relative_attention.plot import study_figure
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.study import Study
from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import StudyJob
from relative_attention.runs.study_plan import StudyPlaces
from relative_attention.runs.study_plan import check_jobs
from relative_attention.runs.study_plan import check_results
from relative_attention.runs.study_plan import study_jobs
from relative_attention.runs.study_plan import take_over
from relative_attention.runs.study_processes import run_processes
from relative_attention.runs.study_table import study_markdown
from relative_attention.runs.study_table import study_table
from relative_attention.runs.study_text import check_test_texts


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
    """Trains what is missing of a study, and writes its table and picture.

    Each run is an ordinary one of `train`, in `output/ROW-SEED` and in a
    process of its own; what is there is gone on with, or taken as it is if it
    is finished. After each, its record is added to the results file, and the
    table is written beside it as Markdown; in the end a picture, too, if
    `matplotlib` is installed. A run that the results file has is not run
    again, even where its folder is not.

    Args:
        study: A `Study`.
        output: The path of the folder of the runs. Defaults to `runs/NAME`.
        data_directory: The path of a folder in which to look for the texts;
            see `find_corpus`. Defaults to `None`.
        results: The path of the results file. Defaults to `NAME.json`, beside
            a study that comes with a checkout, else in `output`.
        num_jobs: How many runs to train at a time.
        rows: Names of the rows to train. Defaults to `None`, all.
        seeds: Seeds to train with. Defaults to `None`, all.
        report: A function that is called with each line for the log. Defaults
            to printing to standard error.

    Returns:
        A list of dicts, the table: one for each row of the study.

    Raises:
        InputError: if a text is missing, what is finished is of another
            recipe, precision, number of updates or test text, or the results
            file cannot be written, all before any work is done; or if a run
            failed, after the others have ended.
        KeyboardInterrupt, SystemExit: on SIGINT or SIGTERM, after each run
            saved a checkpoint.
    """
    _check_call(num_jobs)
    report = report or print_error
    places = StudyPlaces.of(study, output, results, data_directory)
    chosen = study_jobs(study, places, rows, seeds)
    check_results(study_jobs(study, places), places.results)
    places.results.check_writable()
    for job, record in take_over(chosen, places.results):
        origin = record.get("taken_from", job.record)
        report(f"{job.name}: taken from {origin}")
    runs = places.results.runs()
    left = [job for job in chosen if job.name not in runs]
    check_jobs(left, places.results)
    check_test_texts(study, left, places.results)

    def add(job: StudyJob) -> None:
        record = job.read_record()
        if record is None:
            raise InputError(f"{job.record} is gone: run the study again.")
        places.results.add(record)
        report(
            f"{job.name}: BLEU {record['test']['bleu']:.2f} on the test text, "
            f"{record['minutes']:.1f} minutes"
        )
        write_table(study, places)

    def is_left(job: StudyJob) -> bool:
        return job.name not in places.results.runs()

    failed = run_processes(left, num_jobs, is_left, add, report)
    table = write_table(study, places)
    _draw(study, table, places)
    # What another process was at, and has finished, did not fail.
    failed = list(filter(is_left, failed))
    if failed:
        raise InputError(
            f"{len(failed)} of {len(left)} runs failed: "
            f"{', '.join(job.name for job in failed)}. Their logs in "
            f"{places.output} say why; the same command tries again."
        )
    return table


def write_table(study: Study, places: StudyPlaces) -> list[dict[str, Any]]:
    """Writes the table of what is finished, beside the results.

    Args:
        study: A `Study`.
        places: Its `StudyPlaces`.

    Returns:
        A list of dicts, the table.
    """

    def make(runs: dict[str, RunRecord]) -> list[dict[str, Any]]:
        table = study_table(study, runs)
        with atomic_file(places.results.path.with_suffix(".md"), "w") as file:
            file.write(study_markdown(study, table, runs))
        return table

    return places.results.write_table(make)


def _check_call(num_jobs: int) -> None:
    if num_jobs < 1:
        raise InputError(
            f"`num_jobs` must be at least 1. Received: {num_jobs}."
        )
    if os.environ.get("TF_CONFIG"):
        raise InputError(
            "Each run of a study is one machine's. Unset TF_CONFIG, and give "
            "each machine some rows or seeds, by `--rows` and `--seeds`."
        )


def _draw(
    study: Study, table: list[dict[str, Any]], places: StudyPlaces
) -> None:
    """Writes the picture of the table, if there is anything to draw with."""
    if not any(row["bleu"] for row in table):
        return
    try:
        check_matplotlib()
    except InputError:
        return
    figure = study_figure(table, study.name, study.axis)
    save_figure(figure, places.results.path.with_suffix(".png"))
