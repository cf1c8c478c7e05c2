"""Studies: recipes that differ in one respect, trained with several seeds.

A study is a YAML file; those of the package are in `models/studies`.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig
from relative_attention.recipes import Recipe
from relative_attention.recipes import find_recipe
from relative_attention.recipes.recipe import AUTO
from relative_attention.recipes.recipe import SECTIONS
from relative_attention.recipes.recipe import SIZES_OF_VOCABULARIES
from relative_attention.recipes.recipe import read_assignments
from relative_attention.recipes.recipe import values_by_key
from relative_attention.schema import check_mapping
from relative_attention.schema import field_value
from relative_attention.schema import unknown
from relative_attention.strict_yaml import read_yaml_file
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_studies

_SEED = "training.seed"
_KEYS = ("description", "recipe", "overrides", "seeds", "rows", "axis")
# All runs of a table have the same number of updates; nothing else ends them.
_NO_OTHER_END = {
    "training.epochs": None,
    "training.minutes": None,
    "training.early_stopping": 0,
}
_SAME_IN_ALL = ("training.steps", "training.precision")
_SAME_IF_COMPARED = ("data.corpus", "data.test_source", "data.test_target")
# Values that do not affect the result of a run: paths of texts, output, how it
# is computed. A record has its own precision and number of updates.
_NOT_COMPARED = (
    "data.corpus",
    "data.origin",
    "data.source_language",
    "data.target_language",
    "model.implementation",
    "training.devices",
    "training.bleu_every",
    "training.pictures",
    "training.keep_checkpoints",
    "training.precision",
)


@dataclasses.dataclass(frozen=True)
class StudyRow:
    """A row of the table: a recipe that is trained once per seed.

    Attributes:
        name: The name of the row; its runs are `NAME-SEED`.
        label: Its name in table and picture. Defaults to `name`.
        group: The rows of a group share a panel of the picture.
        recipe: The recipe to start from. Defaults to the study's.
        overrides: Values of the recipe, by `section.key`, after the study's.
        compare_with: Name of the row that the bootstrap compares it with.
        paper: BLEU reported by the paper.
        same_as: `STUDY:ROW`, a row with the same runs, of a study whose results
            are in the same folder.
        seeds: Defaults to the study's.
    """

    name: str = ""
    label: str = ""
    group: str = ""
    recipe: str = ""
    overrides: dict = dataclasses.field(default_factory=dict)
    compare_with: str | None = None
    paper: float | None = None
    same_as: str | None = None
    seeds: list = dataclasses.field(default_factory=list)

    @property
    def title(self) -> str:
        """The label of the row among all groups."""
        return f"{self.group}, {self.label}" if self.group else self.label


@dataclasses.dataclass(frozen=True)
class Study:
    """Several recipes, each trained with several seeds, and compared.

    Attributes:
        name: A string, the name of its file.
        description: The question that it answers.
        recipe: The name or path of the recipe that rows start from.
        overrides: A dict of `section.key` to value, shared by all rows.
        seeds: A list of int.
        rows: A list of `StudyRow`, each with its own recipe and seeds.
        axis: The recipe key on the axis of the picture, or `None`.
        assignments: A tuple of `section.key=value` from the command line,
            which take precedence over the rows.
        comes_with_package: Whether it is a study of the package, whose results
            file is next to it.
    """

    name: str
    description: str = ""
    recipe: str = ""
    overrides: dict = dataclasses.field(default_factory=dict)
    seeds: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)
    axis: str | None = None
    assignments: tuple[str, ...] = ()
    comes_with_package: bool = False

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "Study":
        """Reads a study from a YAML file.

        Args:
            path: The path of the file.

        Raises:
            InputError: if it is not a study.
        """
        path = pathlib.Path(path)
        return cls.from_mapping(path.stem, read_yaml_file(path, "study"))

    @classmethod
    def from_mapping(cls, name: str, mapping: dict[str, Any]) -> "Study":
        """Returns a study from nested dicts, as YAML gives them.

        Args:
            name: The name of the study.
            mapping: A dict of the keys of a study.

        Raises:
            InputError: if a key is unknown, a value is wrong, two rows have the
                same name, or a row is compared with a missing one.
        """
        for key in mapping:
            # `name` and `assignments` are fields, but no keys of a file.
            if key not in _KEYS:
                raise InputError(unknown("key", key, _KEYS, "study."))
        study = cls(name, **_values(cls, "study", mapping))
        rows = []
        for number, row in enumerate(study.rows):
            # Rows are read after the study, whose recipe and seeds they default
            # to.
            read = StudyRow(**_values(StudyRow, f"rows[{number}]", row))
            rows.append(
                dataclasses.replace(
                    read,
                    label=read.label or read.name,
                    recipe=read.recipe or study.recipe,
                    seeds=read.seeds or study.seeds,
                )
            )
        # YAML keeps line breaks that the page would repeat.
        description = " ".join(study.description.split())
        study = dataclasses.replace(study, description=description, rows=rows)
        study._check()
        return study

    def override(self, assignments: Iterable[str]) -> "Study":
        """Returns a copy with some values replaced in all rows.

        Args:
            assignments: A list of strings `section.key=value`.

        Raises:
            InputError: if one cannot be read, or sets the seed.
        """
        study = dataclasses.replace(
            self, assignments=(*self.assignments, *assignments)
        )
        study._check()
        return study

    def recipe_for(self, row: StudyRow, seed: int) -> Recipe:
        """Returns the recipe of a run.

        Args:
            row: A `StudyRow`.
            seed: An integer.

        Raises:
            InputError: if there is no such recipe, or an override is wrong.
        """
        return find_recipe(row.recipe).replace(
            {
                **self.overrides,
                **row.overrides,
                **read_assignments(self.assignments),
                # Last, as the seed is the study's to choose.
                _SEED: seed,
            }
        )

    def _check(self) -> None:
        """Raises `InputError` unless all runs of the study are valid."""
        _require(self.rows, "`rows` must be a list of one row or more.")
        recipes: dict[str, Recipe] = {}
        # All rows are read before recipes are compared with one another.
        for check in (self._check_row, self._check_recipe):
            for row in self.rows:
                try:
                    check(row, recipes)
                except InputError as error:
                    raise InputError(f"Row {row.name!r}: {error}") from error

    def _check_row(self, row: StudyRow, recipes: dict[str, Recipe]) -> None:
        """Checks a row, and adds its recipe."""
        _require(
            re.fullmatch(r"[\w+][\w+.-]*", row.name),
            "its `name` must be letters, digits, `_`, `+`, `.` and `-`, as it "
            "names folders.",
        )
        _require(row.name not in recipes, "there are two of this name.")
        names = [row.name for row in self.rows]
        if row.compare_with not in (None, *names):
            raise InputError(
                unknown("row to compare with", row.compare_with, names)
            )
        _require(
            row.same_as is None or re.fullmatch(r"[^:/]+:[^:]+", row.same_as),
            "`same_as` must be STUDY:ROW, a row of a study whose results are "
            f"in the same folder. Received: {row.same_as!r}.",
        )
        seeds = row.seeds
        # A `bool` is an `int`, too: its type is compared.
        numbers = {seed for seed in seeds if type(seed) is int and seed >= 0}
        _require(
            seeds and len(numbers) == len(seeds),
            "`seeds`, its own or the study's, must be one or more different "
            f"whole numbers, none below 0. Received: {seeds}.",
        )
        _require(row.recipe, "it or the study must have a `recipe`.")
        given = [a.split("=")[0] for a in self.assignments]
        _require(
            _SEED not in (*given, *self.overrides, *row.overrides),
            f"`{_SEED}` follows from `seeds`: leave it out of the overrides.",
        )
        # One seed stands for all: nothing else differs between them.
        recipes[row.name] = self.recipe_for(row, seeds[0])

    def _check_recipe(self, row: StudyRow, recipes: dict[str, Recipe]) -> None:
        """Checks that the recipe of a row fits the table."""
        problems = list(self._problems(row, recipes))
        # All at once, as most are mended by one override each.
        _require(not problems, " ".join(problems))

    def _problems(
        self, row: StudyRow, recipes: dict[str, Recipe]
    ) -> Iterator[str]:
        """Yields what is wrong with the recipe of a row, each a sentence."""
        # The first row stands for the table.
        recipe, first = recipes[row.name], recipes[self.rows[0].name]
        # Rows that are not compared may be of other languages.
        other = recipes[row.compare_with or row.name]
        expected = {
            **_NO_OTHER_END,
            **{name: value_of(first, name) for name in _SAME_IN_ALL},
            **{name: value_of(other, name) for name in _SAME_IF_COMPARED},
        }
        # Epochs would give rows on other texts other numbers of updates.
        if expected["training.steps"] is None:
            yield (
                "`training.steps` must be a number, the same in all rows. "
                "Received: null."
            )
        for name, value in expected.items():
            if value_of(recipe, name) != value:
                yield (
                    f"`{name}` must be {as_text(value)}, as rows of one table "
                    "have the same number of updates and precision, and are "
                    "compared on the same text. Received: "
                    f"{value_of(recipe, name)}."
                )
        if recipe.data.test_source is None:
            yield (
                "`data.test_source` and `data.test_target` must name what the "
                "rows are compared on."
            )
        training = recipe.training
        tokens, devices = training.batch_tokens, training.devices
        # Otherwise the machine would decide what an update is.
        if training.effective_batch_tokens is None and (
            tokens == AUTO or devices != 1
        ):
            yield (
                "`training.batch_tokens` must be a number and "
                "`training.devices` 1, or `training.effective_batch_tokens` be "
                "given, so that an update has as many tokens on every machine. "
                f"Received: {tokens}, {devices} and null."
            )
        if self.axis is not None:
            value = value_of(recipe, self.axis)
            # The picture's axis is logarithmic, which no number below 0 fits.
            if not isinstance(value, int | float) or value < 0:
                yield (
                    "`axis` must be a key whose values are numbers, none below "
                    f"0. Received: `{self.axis}`, which is {value!r}."
                )


def find_study(name: pathlib.Path | str) -> Study:
    """Returns a study by its path, or by its name in the package.

    Args:
        name: A string, the path of a YAML file, which takes precedence, or the
            name of a study that comes with the package.

    Returns:
        `Study`.

    Raises:
        InputError: if there is no such study, or it is wrong.
    """
    # As with recipes, the user's own file takes precedence.
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


def deciding_values(recipe: Recipe) -> dict[str, Any]:
    """Returns the values that affect the result of a run, for JSON.

    Defaults are left out, so that a record still matches its recipe when a
    version adds a key. The values of the model count, not the name of its
    preset.
    """
    values = _all_values(recipe)
    # Only the tokens of an update matter, not the parts it is computed in.
    parts = values.pop("training.batch_tokens")
    if values["training.effective_batch_tokens"] is None:
        values["training.effective_batch_tokens"] = parts
    defaults = _defaults()
    return json.loads(
        json.dumps(
            {
                name: value
                for name, value in values.items()
                if name not in _NOT_COMPARED and value != defaults[name]
            }
        )
    )


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """Returns the first key in which two `deciding_values` differ, and both."""
    defaults = _defaults()
    # Sorted, so that the same difference is named each time.
    for name in sorted({*before, *now}.difference(_NOT_COMPARED)):
        default = defaults.get(name)
        pair = before.get(name, default), now.get(name, default)
        if pair[0] != pair[1]:
            return name, *pair
    return None


def value_of(recipe: Recipe, name: str) -> Any:
    """Returns the value of a `section.key`, with the preset's for `model`."""
    values = _all_values(recipe)
    if name not in values:
        raise InputError(unknown("key", name, list(values)))
    return values[name]


def as_text(value: Any) -> str:
    """Returns a value in the form of the command line."""
    # YAML reads some words as dates.
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _all_values(recipe: Recipe) -> dict[str, Any]:
    # With any vocabulary, whose size is left out.
    config = dataclasses.asdict(recipe.model_config(vocabulary_size=8000))
    model = {k: v for k, v in config.items() if k not in SIZES_OF_VOCABULARIES}
    return values_by_key(dataclasses.replace(recipe, model=model))


def _defaults() -> dict[str, Any]:
    return {
        f"{section}.{field.name}": field.default
        for section, cls in {**SECTIONS, "model": TransformerConfig}.items()
        for field in dataclasses.fields(cls)
    }


def _values(cls: type, where: str, mapping: Any) -> dict[str, Any]:
    """Returns the values of the fields of `cls` in YAML, without nulls."""
    return {
        name: field_value(cls, f"{where}.", name, value)
        for name, value in check_mapping(mapping, where).items()
        # A null is as if the key were absent.
        if value is not None
    }


def _require(is_right: object, problem: str) -> None:
    if not is_right:
        raise InputError(problem)
