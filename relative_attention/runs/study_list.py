"""Lists the runs of a study: what is done, what it cost, what is left."""

from collections.abc import Mapping
from collections.abc import Sequence

import tabulate

from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import StudyJob
from relative_attention.runs.study_plan import StudyPlaces
from relative_attention.runs.study_plan import check_results
from relative_attention.runs.study_plan import updates_made


def study_list(jobs: Sequence[StudyJob], places: StudyPlaces) -> str:
    """Returns a table of runs, and a line on what is left.

    Args:
        jobs: Runs of the study.
        places: Its `StudyPlaces`.

    Raises:
        InputError: if a run of the results had another recipe, as `run_study`.
    """
    check_results(jobs, places.results)
    runs = places.results.runs()
    rows = [_row(job, runs) for job in jobs]
    header = ("run", "state", "BLEU", "minutes", "updates", "precision")
    table = tabulate.tabulate(
        rows,
        (*header, "commit", "hardware"),
        tablefmt="plain",
        colalign=("left", "left", "right", "right", "right", *["left"] * 3),
        disable_numparse=True,
    )
    return f"{table}\n\n{_summary(jobs, runs)}\nresults: {places.results.path}"


def _row(job: StudyJob, runs: Mapping[str, RunRecord]) -> list[str]:
    record = runs.get(job.name)
    if record is None:
        state, updates = "left", updates_made(job)
        if job.record.is_file() or job.is_finished():
            state = "trained"
        elif job.directory.exists():
            state = "begun"
        return [job.name, state, "", "", f"{updates:,}" if updates else ""] + [
            ""
        ] * 3
    origin = record.get("taken_from")
    return [
        job.name,
        f"as {origin}" if origin else "done",
        f"{record['test']['bleu']:.2f}",
        f"{record['minutes']:.1f}",
        f"{record['steps']:,}",
        record["precision"],
        (record.get("commit") or "")[:7],
        record.get("hardware") or "",
    ]


def _summary(jobs: Sequence[StudyJob], runs: Mapping[str, RunRecord]) -> str:
    done = [runs[job.name] for job in jobs if job.name in runs]
    left = [job for job in jobs if job.name not in runs]
    minutes = sum(r["minutes"] for r in done if "taken_from" not in r)
    text = (
        f"{len(done)} of {len(jobs)} runs are done, in {minutes:,.0f} minutes"
    )
    if not left:
        return f"{text}; none is left."
    if not done:
        return f"{text}; how long the others take is not known yet."
    verb = "is" if len(left) == 1 else "are"
    return (
        f"{text}; {len(left)} {verb} left, about "
        f"{sum(_minutes_left(job, runs) for job in left):,.0f} minutes one "
        "after another, as those before."
    )


def _minutes_left(job: StudyJob, runs: Mapping[str, RunRecord]) -> float:
    """Estimates a run by those of its row, or by all."""
    alike = [r for r in runs.values() if r["row"] == job.row]
    known = alike or list(runs.values())
    per_update = sum(r["minutes"] / r["steps"] for r in known) / len(known)
    return per_update * max(known[0]["steps"] - updates_made(job), 0)
