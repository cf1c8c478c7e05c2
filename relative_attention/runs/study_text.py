"""Tells whether finished runs translated the test text that is here."""

from collections.abc import Sequence

from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.evaluation import BleuStatistics
from relative_attention.runs.study import Study
from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import StudyJob
from relative_attention.runs.study_job import run_name
from relative_attention.runs.study_results import StudyResults


class StudyText:
    """Compares test texts that are here with what records tell of theirs.

    Recipes name files, and those of another corpus may have the same names.
    """

    def __init__(self) -> None:
        # Each read once.
        self._here: dict[ParallelCorpus, BleuStatistics] = {}

    def is_that_of(self, record: RunRecord, job: StudyJob) -> bool:
        """Returns whether a finished run translated the text of a job.

        Args:
            record: Its record.
            job: A `StudyJob`.

        Raises:
            InputError: if a text of the job is missing or unusable.
        """
        found = BleuStatistics.from_json(record["test"])
        return found.has_text_of(self._references(job))

    def _references(self, job: StudyJob) -> BleuStatistics:
        corpus = job.test_corpus()
        if corpus not in self._here:
            references = [target for _, target in corpus]
            self._here[corpus] = BleuStatistics.of_texts(references, references)
        return self._here[corpus]


def check_test_texts(
    study: Study, jobs: Sequence[StudyJob], results: StudyResults
) -> None:
    """Refuses runs that would translate another text than those before.

    Args:
        study: A `Study`.
        jobs: Its runs that are left.
        results: Its `StudyResults`.

    Raises:
        InputError: if a run has another test text than a finished one of its
            row, or of one that is compared with it.
    """
    text, runs = StudyText(), results.runs()
    for job in jobs:
        compared = {job.row, study.row(job.row).compare_with}
        compared |= {r.name for r in study.rows if r.compare_with == job.row}
        for record in runs.values():
            if record["row"] in compared and not text.is_that_of(record, job):
                other = run_name(record["row"], record["seed"])
                raise InputError(
                    f"The test text {job.made_recipe.data.test_target} of "
                    f"{job.name} is not the one that {other} was scored on. "
                    "Give the `--data` that the finished runs had, or begin "
                    "another table with `--results` and `--output`."
                )
