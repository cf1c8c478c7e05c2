"""Finds out what of a study is done, and what is left."""

import dataclasses
import pathlib
from collections.abc import Sequence

from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.errors import InputError
from relative_attention.evaluation import BleuStatistics
from relative_attention.files import read_json
from relative_attention.runs.run_files import recorded_files
from relative_attention.runs.study import Study
from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import StudyJob
from relative_attention.runs.study_results import StudyResults
from relative_attention.runs.study_results import check_common
from relative_attention.runs.study_results import check_values
from relative_attention.runs.study_results import equal_runs
from relative_attention.runs.study_text import StudyText
from relative_attention.runs.study_values import deciding_values
from relative_attention.settings import unknown
from relative_attention.training import choose_precision
from relative_attention.zoo import is_installed
from relative_attention.zoo import studies_directory


@dataclasses.dataclass(frozen=True)
class StudyPlaces:
    """Where a study finds and leaves what it works with.

    Attributes:
        output: The path of the folder of its runs.
        results: Its `StudyResults`.
        data_directory: Where texts are looked for, or `None`.
    """

    output: pathlib.Path
    results: StudyResults
    data_directory: pathlib.Path | None

    @classmethod
    def of(
        cls,
        study: Study,
        output: pathlib.Path | str | None = None,
        results: pathlib.Path | str | None = None,
        data_directory: pathlib.Path | str | None = None,
    ) -> "StudyPlaces":
        """Returns the places; see `run_study`.

        Raises:
            InputError: if `results` is no name of a JSON file.
        """
        folder = pathlib.Path(output or pathlib.Path("runs", study.name))
        if results is None:
            beside = study.comes_with_package and not is_installed()
            parent = studies_directory() if beside else folder
            results = parent / f"{study.name}.json"
        results = pathlib.Path(results)
        if results.suffix != ".json" or results.is_dir():
            raise InputError(
                "`--results` must be the name of a `.json` file; table and "
                f"picture are written beside it. Received: {results}."
            )
        data = None if data_directory is None else pathlib.Path(data_directory)
        return cls(folder, StudyResults(results, study.name), data)


def study_jobs(
    study: Study,
    places: StudyPlaces,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[StudyJob]:
    """Returns the runs of a study, or of some of its rows and seeds.

    The first seed of every row comes first, so that a study that is cut short
    has all rows.

    Args:
        study: A `Study`.
        places: Its `StudyPlaces`.
        rows: Names of rows. Defaults to `None`, all.
        seeds: Seeds. Defaults to `None`, all.

    Raises:
        InputError: if there is no such row, or no row has such a seed.
    """
    # Named twice it is trained once.
    names = dict.fromkeys(rows or [])
    chosen = study.rows if rows is None else [study.row(n) for n in names]
    known = sorted({seed for row in study.rows for seed in study.seeds_of(row)})
    for seed in seeds or []:
        if seed not in known:
            raise InputError(unknown("seed", seed, [str(s) for s in known]))
    numbered = [
        (turn, row, seed)
        for row in chosen
        for turn, seed in enumerate(study.seeds_of(row))
        if seeds is None or seed in seeds
    ]
    data = places.data_directory
    return [
        StudyJob(
            row.name,
            seed,
            study.recipe_of(row),
            tuple(study.assignments_of(row, seed)),
            str(places.output),
            None if data is None else str(data),
        )
        for _, row, seed in sorted(numbered, key=lambda entry: entry[0])
    ]


def check_results(jobs: Sequence[StudyJob], results: StudyResults) -> None:
    """Refuses to go on with results that are of other recipes.

    Args:
        jobs: All runs of the study.
        results: A `StudyResults`.

    Raises:
        InputError: if a run there had another recipe than the study asks for.
    """
    runs = results.runs()
    for job in jobs:
        if job.name in runs:
            found = runs[job.name]["values"]
            asked = deciding_values(job.made_recipe)
            check_values(job.name, found, asked, results.path)


def take_over(
    jobs: Sequence[StudyJob], results: StudyResults
) -> list[tuple[StudyJob, RunRecord]]:
    """Adds to the results what is finished and not among them.

    That is what a process left that died before it could add it, and runs of
    the same recipe, and of the same test text, in the results of other studies
    beside these.

    Args:
        jobs: Runs of the study.
        results: A `StudyResults`.

    Returns:
        Pairs of the jobs and what was added for them.

    Raises:
        InputError: if a run's files are those of another recipe, or it would
            not fit the table; or if a run could be taken over, and the text is
            missing by which that is decided.
    """
    added, text = [], StudyText()
    for job in jobs:
        runs = results.runs()
        if job.name in runs:
            continue
        record = job.read_record()
        if record is None and not job.directory.exists():
            recipe = job.made_recipe
            common = next(iter(runs.values()), None) or {
                "precision": choose_precision(recipe.training.precision)[0],
                **_own_bleu(),
            }
            equal = equal_runs(deciding_values(recipe), common, results.path)
            for one in equal:
                if text.is_that_of(one, job):
                    record = {**one, "row": job.row, "seed": job.seed}
                    break
        if record is not None:
            results.add(record)
            added.append((job, record))
    return added


def check_jobs(jobs: Sequence[StudyJob], results: StudyResults) -> None:
    """Refuses runs that could not be trained or would not fit the table.

    Args:
        jobs: The runs that are left.
        results: A `StudyResults`.

    Raises:
        InputError: if a text is missing, a finished run is of another recipe,
            or a run would have another precision, number of updates or
            signature of BLEU than the others.
    """
    runs = results.runs()
    # Finished ones first: they say what the others must have.
    for job in sorted(jobs, key=lambda job: not job.is_finished()):
        recipe = job.made_recipe
        run = {"row": job.row, "seed": job.seed, **_own_bleu()}
        reason = ""
        if job.is_finished():
            found = job.read_results()
            run |= {name: found[name] for name in ("precision", "steps")}
        else:
            asked = recipe.training.precision
            run["precision"], because = choose_precision(asked)
            if asked == "auto":
                reason = f" (`training.precision` is auto, and {because})"
        check_common(run, runs, results.path, reason)
        runs[job.name] = run
        known = recorded_files(job.directory)
        find_corpus(recipe.data, job.data_directory, known)


def _own_bleu() -> RunRecord:
    """Returns what is known of the BLEU of a run before it is scored."""
    # The signature says how it is computed, by which version.
    signature = BleuStatistics.of_texts(["a"], ["a"]).signature
    return {"test": {"signature": signature}}


def updates_made(job: StudyJob) -> int:
    """Returns how many updates a run has made that is not finished."""
    try:
        history = read_json(job.directory / "history.json")
        return int(history[-1]["step"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0
