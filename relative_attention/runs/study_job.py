"""One run of a study: its folder, and what is kept of it."""

import dataclasses
import functools
import json
import pathlib
from typing import Any

from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.files import read_json_object
from relative_attention.runs.find_recipe import find_recipe
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.run_files import recorded_files
from relative_attention.runs.study_record import check_record
from relative_attention.runs.study_values import deciding_values
from relative_attention.runs.study_values import first_difference
from relative_attention.saving.model_directory import load_results

# What the results file has of a run.
RunRecord = dict[str, Any]
# What `results.json` must have for a record.
_NEEDED = ("precision", "steps", "minutes", "scores", "curve")


@dataclasses.dataclass(frozen=True)
class StudyJob:
    """Says what to train and where; a process of its own reads it as JSON.

    Attributes:
        row: The name of the row.
        seed: An integer.
        recipe: The name or path of a recipe.
        assignments: A tuple of `section.key=value`, as `train` takes them.
        output: The path of the study's folder.
        data_directory: Where the texts are looked for, or `None`.
    """

    row: str
    seed: int
    recipe: str
    assignments: tuple[str, ...]
    output: str
    data_directory: str | None

    @classmethod
    def from_json(cls, text: str) -> "StudyJob":
        """Reads what `to_json` returned."""
        fields = json.loads(text)
        fields["assignments"] = tuple(fields["assignments"])
        return cls(**fields)

    def to_json(self) -> str:
        """Returns the job as a string, for another process."""
        return json.dumps(dataclasses.asdict(self))

    @property
    def name(self) -> str:
        """The name of the run and its folder."""
        return run_name(self.row, self.seed)

    @property
    def directory(self) -> pathlib.Path:
        """The folder of the run, an ordinary one of `train`."""
        return self._path("")

    @property
    def log(self) -> pathlib.Path:
        """Where what the run prints goes."""
        return self._path(".log")

    @property
    def record(self) -> pathlib.Path:
        """Where the run's line of the results file waits to be added."""
        return self._path(".study.json")

    @property
    def hypotheses(self) -> pathlib.Path:
        """Where the translations of the test text go."""
        return self._path(".hypotheses")

    def is_finished(self) -> bool:
        """Returns whether the run was trained to its end and scored."""
        return (self.directory / "results.json").is_file()

    @functools.cached_property
    def made_recipe(self) -> Recipe:
        """The recipe of the run."""
        return find_recipe(self.recipe).override(self.assignments)

    def test_corpus(self) -> ParallelCorpus:
        """Returns the test text, as it is found here.

        Raises:
            InputError: if a text of the run is missing or unusable.
        """
        texts = find_corpus(
            self.made_recipe.data,
            self.data_directory,
            recorded_files(self.directory),
        )
        corpus = ParallelCorpus(str(texts.test_source), str(texts.test_target))
        corpus.check()
        return corpus

    def read_record(self) -> RunRecord | None:
        """Returns what waits to be added, or `None`.

        Raises:
            InputError: if it is that of another run, or damaged.
        """
        if not self.record.is_file():
            return None
        try:
            record = read_json_object(self.record)
            check_record(record)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.record} is damaged: {error}. Delete it: it is made "
                "anew from the run."
            ) from error
        self._check(record["values"], deciding_values(self.made_recipe))
        return record

    def read_results(self) -> dict[str, Any]:
        """Returns the results of a run that is finished.

        Raises:
            InputError: if it is another run than the study asks for, or its
                results lack what the table is made of.
        """
        found = Recipe.load(self.directory / "recipe.yaml")
        asked = deciding_values(self.made_recipe)
        self._check(deciding_values(found), asked)
        results = load_results(self.directory)
        lacking = [n for n in _NEEDED if results.get(n) is None]
        if not lacking and "bleu_lowercased" not in results["scores"].get(
            "test", {}
        ):
            lacking = ["scores.test.bleu_lowercased"]
        if lacking:
            raise InputError(
                f"{self.directory / 'results.json'} lacks `{lacking[0]}`, of "
                "which the table is made. Move the run away: it is trained "
                "anew."
            )
        return results

    def _check(self, found: dict[str, Any], asked: dict[str, Any]) -> None:
        difference = first_difference(found, asked)
        if difference is not None:
            name, before, now = difference
            raise InputError(
                f"{self.directory} holds a run with `{name}` {before!r}, and "
                f"the study asks for {now!r}. Move it away, or choose another "
                "`--output`."
            )

    def _path(self, ending: str) -> pathlib.Path:
        return pathlib.Path(self.output, f"{self.name}{ending}")


def run_name(row: str, seed: int) -> str:
    """Returns what the run of a row and a seed is called."""
    return f"{row}-{seed}"
