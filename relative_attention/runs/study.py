"""Studies: recipes that differ in one thing, each trained with several seeds.

A study is a YAML file; those of the zoo are in `models/studies`.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from relative_attention.errors import InputError
from relative_attention.runs.find_recipe import find_recipe
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_values import read_yaml
from relative_attention.runs.study_values import as_text
from relative_attention.runs.study_values import value_of
from relative_attention.settings import check_mapping
from relative_attention.settings import key
from relative_attention.settings import read_section
from relative_attention.settings import unknown
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_studies

_SEED = "training.seed"
# What all rows of a table must have in common.
_COMMON = ("training.steps", "training.precision")


@dataclasses.dataclass(frozen=True)
class StudyRow:
    """Declares the keys of a row: a recipe that is trained once per seed."""

    name: str = key("", "What the row is called; its runs are `NAME-SEED`.")
    label: str = key("", "What the table and the picture call it.")
    group: str = key(
        "", "Rows of a group are compared: a panel of the picture each."
    )
    recipe: str | None = key(None, "Another recipe than the study's.")
    overrides: dict | None = key(
        None, "Values of the recipe, by `section.key`."
    )
    compare_with: str | None = key(
        None, "Name of the row that its bootstrap compares it with."
    )
    paper: float | None = key(None, "BLEU that the paper reports.")
    seeds: list | None = key(None, "Other seeds than the study's.")

    @property
    def title(self) -> str:
        """What to call the row among those of all groups."""
        label = self.label or self.name
        return f"{self.group}, {label}" if self.group else label


@dataclasses.dataclass(frozen=True)
class _Head:
    """Declares the keys of a study, but for its rows."""

    description: str = key("", "What is asked, and of whom.")
    recipe: str = key("", "Name or path of the recipe that the rows begin at.")
    overrides: dict | None = key(
        None, "Values of the recipe that all rows share, by `section.key`."
    )
    seeds: list | None = key(None, "Seeds that each row is trained with.")
    axis: str | None = key(
        None, "Key of the recipe that the picture shows BLEU by."
    )


@dataclasses.dataclass(frozen=True)
class Study:
    """Several recipes, each trained with several seeds, and compared.

    Attributes:
        name: A string, the name of its file.
        description: What is asked.
        recipe: The name or path of the recipe that the rows begin at.
        overrides: A dict of `section.key` to value, shared by all rows.
        seeds: A list of int.
        rows: A list of `StudyRow`.
        axis: The key of the recipe that the picture shows BLEU by, or `None`.
        assignments: A tuple of `section.key=value` from the command line,
            which go before what the rows say.
        comes_with_package: A boolean to indicate whether it is one of the
            zoo's, whose results file is beside it.
    """

    name: str
    description: str
    recipe: str
    overrides: dict[str, Any]
    seeds: list[int]
    rows: list[StudyRow]
    axis: str | None = None
    assignments: tuple[str, ...] = ()
    comes_with_package: bool = False

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "Study":
        """Reads a study from a YAML file.

        Args:
            path: The path of the file.

        Raises:
            InputError: if it is no study.
        """
        path = pathlib.Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"No study at {path}: {error}.") from error
        mapping = check_mapping(read_yaml(text, str(path)), path)
        return cls.from_mapping(path.stem, mapping)

    @classmethod
    def from_mapping(cls, name: str, mapping: dict[str, Any]) -> "Study":
        """Returns a study from nested dicts, as YAML gives them.

        Args:
            name: What the study is called.
            mapping: A dict of the keys of a study.

        Raises:
            InputError: if a key is unknown, a value wrong, two rows have one
                name, or a row is compared with one that is not there.
        """
        mapping = dict(mapping)
        rows = mapping.pop("rows", None)
        if not isinstance(rows, list) or not rows:
            raise InputError(
                f"`rows` must be a list of one row or more. Received: {rows!r}."
            )
        head = read_section(_Head, "study", mapping)
        study = cls(
            name,
            " ".join(head.description.split()),
            head.recipe,
            head.overrides or {},
            _checked_seeds(head.seeds or [], "seeds"),
            [_read_row(row, number) for number, row in enumerate(rows)],
            head.axis,
        )
        study._check()
        return study

    def override(self, assignments: Iterable[str]) -> "Study":
        """Returns a copy whose rows all have some values replaced.

        Args:
            assignments: A list of strings `section.key=value`.

        Raises:
            InputError: if one cannot be read, or is the seed's.
        """
        study = dataclasses.replace(
            self, assignments=(*self.assignments, *assignments)
        )
        study._check()
        return study

    def row(self, name: str) -> StudyRow:
        """Returns the row of a name.

        Args:
            name: A string.

        Raises:
            InputError: if there is none.
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise InputError(unknown("row", name, [r.name for r in self.rows]))

    def seeds_of(self, row: StudyRow) -> list[int]:
        """Returns the seeds that a row is trained with.

        Args:
            row: A `StudyRow`.
        """
        return self.seeds if row.seeds is None else row.seeds

    def recipe_of(self, row: StudyRow) -> str:
        """Returns the name or path of the recipe that a row begins at.

        Args:
            row: A `StudyRow`.
        """
        return row.recipe or self.recipe

    def assignments_of(self, row: StudyRow, seed: int) -> list[str]:
        """Returns what makes a run of a row's recipe, as `train` takes it.

        Args:
            row: A `StudyRow`.
            seed: An integer.
        """
        values = {**self.overrides, **(row.overrides or {})}
        return [
            *(f"{name}={as_text(value)}" for name, value in values.items()),
            *self.assignments,
            f"{_SEED}={seed}",
        ]

    def recipe_for(self, row: StudyRow, seed: int) -> Recipe:
        """Returns the recipe of a run.

        Args:
            row: A `StudyRow`.
            seed: An integer.

        Raises:
            InputError: if there is no such recipe, or an override is wrong.
        """
        try:
            name = self.recipe_of(row)
            recipe = self._recipes.get(name) or find_recipe(name)
            self._recipes[name] = recipe
            return recipe.override(self.assignments_of(row, seed))
        except InputError as error:
            raise InputError(f"Row {row.name!r}: {error}") from error

    @functools.cached_property
    def _recipes(self) -> dict[str, Recipe]:
        """The recipes that rows begin at, each read once."""
        return {}

    def _check(self) -> None:
        """Raises `InputError` unless every run of the study can be made."""
        names = [row.name for row in self.rows]
        for name in names:
            if names.count(name) > 1:
                raise InputError(
                    f"`rows` must have a name each. Received: {name!r} twice."
                )
        for row in self.rows:
            if row.compare_with is not None and row.compare_with not in names:
                raise InputError(
                    f"Row {row.name!r}: "
                    f"{unknown('row to compare with', row.compare_with, names)}"
                )
            if not self.seeds_of(row):
                raise InputError(
                    f"Row {row.name!r} has no seeds: give `seeds` to the study "
                    "or to the row, a list of whole numbers."
                )
            if not self.recipe_of(row):
                raise InputError(
                    f"Row {row.name!r} has no recipe: give `recipe` to the "
                    "study or to the row, the name of one of the zoo or a path."
                )
        self._check_recipes()

    def _check_recipes(self) -> None:
        given = [*self.overrides, *(a.split("=")[0] for a in self.assignments)]
        given += [name for row in self.rows for name in row.overrides or {}]
        if _SEED in given:
            raise InputError(
                f"`{_SEED}` follows from `seeds`: leave it out of the "
                "overrides."
            )
        recipes = [
            self.recipe_for(row, self.seeds_of(row)[0]) for row in self.rows
        ]
        for row, recipe in zip(self.rows, recipes):
            if recipe.data.test_source is None:
                raise InputError(
                    f"Row {row.name!r}: `data.test_source` and "
                    "`data.test_target` must name what the rows are compared "
                    "on."
                )
            for name in _COMMON:
                first, other = (
                    value_of(recipes[0], name),
                    value_of(recipe, name),
                )
                if first != other:
                    raise InputError(
                        f"All rows of a study must have the same `{name}`. "
                        f"Received: {first} for {self.rows[0].name!r}, {other} "
                        f"for {row.name!r}."
                    )
            _check_updates(row, recipe)
            if row.compare_with is not None:
                other = self.row(row.compare_with)
                _check_same_test(row, recipe, recipes[self.rows.index(other)])
            if self.axis is not None:
                _check_place(row, self.axis, value_of(recipe, self.axis))


def find_study(name: pathlib.Path | str) -> Study:
    """Returns a study by its path, or by its name in the zoo.

    Args:
        name: A string, the path of a YAML file, before which nothing goes, or
            one of the studies that come with the package.

    Returns:
        `Study`.

    Raises:
        InputError: if there is no such study, or it is wrong.
    """
    if pathlib.Path(name).is_file():
        return Study.load(name)
    known = zoo_studies()
    if str(name) in known:
        study = Study.load(studies_directory() / f"{name}.yaml")
        return dataclasses.replace(study, comes_with_package=True)
    raise InputError(
        f"{unknown('study', str(name), known)} The path of a YAML file is "
        "taken, too."
    )


def _check_updates(row: StudyRow, recipe: Recipe) -> None:
    """Refuses what would make updates of one table differ, hours later."""
    training = recipe.training
    if training.steps is None or training.epochs is not None:
        raise InputError(
            f"Row {row.name!r}: `training.steps` must be given, and "
            "`training.epochs` null, as rows and seeds may have other numbers "
            f"of updates a pass. Received: {training.steps} and "
            f"{training.epochs}."
        )
    if training.minutes is not None or training.early_stopping:
        raise InputError(
            f"Row {row.name!r}: `training.minutes` must be null and "
            "`training.early_stopping` 0, as a run that they end has another "
            "number of updates than the others. Received: "
            f"{training.minutes} and {training.early_stopping}."
        )
    if training.effective_batch_tokens is None and (
        training.batch_tokens == "auto" or training.devices != 1
    ):
        raise InputError(
            f"Row {row.name!r}: `training.batch_tokens` must be a number and "
            "`training.devices` 1, or `training.effective_batch_tokens` be "
            "given: an update has as many tokens on every machine. Received: "
            f"{training.batch_tokens}, {training.devices} and null."
        )


def _check_same_test(row: StudyRow, recipe: Recipe, other: Recipe) -> None:
    """Refuses to compare BLEU of different texts."""
    pair = [
        f"{r.data.test_source} and {r.data.test_target}"
        for r in (recipe, other)
    ]
    if pair[0] != pair[1]:
        raise InputError(
            f"Row {row.name!r} must have the test text of the row that it is "
            f"compared with, {row.compare_with!r}. Received: {pair[0]}; "
            f"{pair[1]}."
        )


def _check_place(row: StudyRow, axis: str, value: Any) -> None:
    """Refuses a value that has no place on the picture's axis."""
    if not isinstance(value, int | float) or value < 0:
        raise InputError(
            f"`axis` must be a key whose values are numbers, none below 0, as "
            f"BLEU is drawn by them. Received: `{axis}`, which is {value!r} "
            f"for {row.name!r}."
        )


def _read_row(mapping: Any, number: int) -> StudyRow:
    where = f"rows[{number}]"
    row = read_section(StudyRow, where, check_mapping(mapping, where))
    if not re.fullmatch(r"[\w+][\w+.-]*", row.name):
        raise InputError(
            f"`{where}.name` must be letters, digits, `_`, `+`, `.` and `-`, "
            f"as it names folders. Received: {row.name!r}."
        )
    if row.seeds is not None:
        _checked_seeds(row.seeds, f"{where}.seeds")
    return row


def _checked_seeds(seeds: Sequence[Any], where: str) -> list[int]:
    is_right = all(
        isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0
        for seed in seeds
    )
    if not is_right or len(set(seeds)) < len(seeds):
        raise InputError(
            f"`{where}` must be different whole numbers, none below 0. "
            f"Received: {seeds!r}."
        )
    return list(seeds)
