"""Recipes, which hold everything that decides what a training run gives."""

import dataclasses
import pathlib
import re
import reprlib
import types
from collections.abc import Iterable
from typing import Any

import yaml

from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.files import atomic_file
from relative_attention.models import TransformerConfig
from relative_attention.models import preset_config
from relative_attention.models import preset_training
from relative_attention.models import presets
from relative_attention.runs.recipe_sections import GONE
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.recipe_sections import VocabularySection
from relative_attention.runs.recipe_sections import check_gone
from relative_attention.settings import check_mapping
from relative_attention.settings import check_section
from relative_attention.settings import field_value
from relative_attention.settings import keys_of
from relative_attention.settings import read_section
from relative_attention.settings import types_of
from relative_attention.settings import unknown
from relative_attention.zoo import zoo_directory
from relative_attention.zoo import zoo_recipes


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Describes a training run.

    Attributes:
        name: A string, what the run is called.
        description: A sentence on what it is for.
        data: A `DataSection`.
        vocabulary: A `VocabularySection`.
        model: A dict: `preset`, the name of a preset, and any fields of
            `TransformerConfig` that differ from it.
        training: A `TrainingSection`.
        decoding: A `DecodingSection`.
    """

    name: str
    description: str = ""
    data: DataSection = DataSection()
    vocabulary: VocabularySection = VocabularySection()
    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    training: TrainingSection = TrainingSection()
    decoding: DecodingSection = DecodingSection()

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "Recipe":
        """Reads a recipe from a YAML file.

        Args:
            path: The path of the file. Its folder's name is the recipe's, or
                its own where it is not called `recipe.yaml`.

        Raises:
            InputError: if it is no recipe: not YAML, an unknown key, a value
                of another type.
        """
        path = pathlib.Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"No recipe at {path}: {error}.") from error
        mapping = dict(check_mapping(read_yaml(text, str(path)), path))
        derived = mapping.pop(_DERIVED, None)
        name = (
            path.stem if path.stem != "recipe" else path.resolve().parent.name
        )
        recipe = cls.from_mapping({"name": name, **mapping})
        if isinstance(derived, list):
            recipe._derived.update(map(str, derived))
        return recipe

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> "Recipe":
        """Returns a recipe from nested dicts, as YAML gives them.

        Args:
            mapping: A dict of the fields of `Recipe`, the sections as dicts.

        Raises:
            InputError: if a key is unknown or a value of another type.
        """
        mapping, derived = _with_preset_training(
            check_mapping(mapping, "recipe")
        )
        if "name" not in mapping:
            raise InputError("`name` must say what the recipe is called.")
        fields: dict[str, Any] = {}
        for key, value in mapping.items():
            if key in SECTIONS:
                section = dict(check_mapping(value, key))
                for name in section.keys() & _gone_keys(key):
                    check_gone(f"{key}.{name}", section.pop(name))
                fields[key] = read_section(SECTIONS[key], key, section)
            elif key == "model":
                fields[key] = _read_model(check_mapping(value, key))
            else:
                fields[key] = field_value(cls, "", key, value)
        return cls(**fields)._checked(derived)

    def __post_init__(self) -> None:
        # Names (`section.key`) of the values that follow from the preset, as
        # nobody wrote them. Not a field: a recipe made from values alone has
        # been told all of them.
        self._derived: set[str]
        object.__setattr__(self, "_derived", set())

    def _checked(self, derived: Iterable[str]) -> "Recipe":
        """Returns the recipe itself, if a model could be trained with it.

        Args:
            derived: The names of the values that follow from the preset.
        """
        if "preset" not in self.model:
            raise InputError(
                "`model.preset` must name a preset. See `relative-attention "
                "list`."
            )
        _check_values(self)
        self.model_config(self.vocabulary.size)
        self._derived.update(derived)
        return self

    def override(self, assignments: Iterable[str]) -> "Recipe":
        """Returns a copy with some values replaced.

        Where `model.preset` is another, the values that followed from the
        preset before follow from the new one.

        Args:
            assignments: A list of strings `section.key=value`, the value as
                in YAML; where it is the name of a file, as it stands.

        Raises:
            InputError: as `from_mapping`, or if a string is no assignment.
        """
        changed: dict[str, dict[str, Any]] = {
            name: {} for name in _ALL_SECTIONS
        }
        derived = set(self._derived)
        for assignment in assignments:
            read = _read_assignment(assignment)
            if read is None:
                continue
            section, name, value = read
            changed[section][name] = value
            derived.discard(f"{section}.{name}")
        model = {**self.model, **changed["model"]}
        if model.get("preset") != self.model.get("preset"):
            # What followed from the preset follows from the new one.
            training = _preset_training(model.get("preset"))
            derived &= {f"training.{name}" for name in training}
            for name, value in training.items():
                if f"training.{name}" in derived:
                    changed["training"][name] = value
        sections = {
            name: dataclasses.replace(getattr(self, name), **changed[name])
            for name in SECTIONS
        }
        recipe = dataclasses.replace(self, model=model, **sections)
        return recipe._checked(derived)

    def to_mapping(self) -> dict[str, Any]:
        """Returns nested dicts, from which `from_mapping` makes the same."""
        return dataclasses.asdict(self)

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the recipe, every value of it, as YAML.

        What followed from the preset is named too, so that it follows from
        another where the file's preset is overridden.

        Args:
            path: The path of the file.
        """
        mapping = self.to_mapping()
        if self._derived:
            mapping[_DERIVED] = sorted(self._derived)
        text = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True)
        with atomic_file(path, "w") as file:
            file.write(text)

    def model_config(
        self, vocabulary_size: int, source_vocabulary_size: int | None = None
    ) -> TransformerConfig:
        """Returns the architecture, for vocabularies of these sizes.

        Args:
            vocabulary_size: An integer, the size of the target's, or of both.
            source_vocabulary_size: An integer, the size of the source's.
                Defaults to `None`, one vocabulary for both.

        Raises:
            InputError: if a field of `model` is unknown, or a value wrong.
        """
        overrides = {k: v for k, v in self.model.items() if k != "preset"}
        if source_vocabulary_size is not None:
            overrides.setdefault("share_embeddings", "target")
            overrides["source_vocabulary_size"] = source_vocabulary_size
        try:
            return preset_config(
                self.model["preset"],
                vocabulary_size=vocabulary_size,
                **overrides,
            )
        except ValueError as error:
            raise InputError(f"In `model`: {error}") from error


SECTIONS = {
    "data": DataSection,
    "vocabulary": VocabularySection,
    "training": TrainingSection,
    "decoding": DecodingSection,
}
_ALL_SECTIONS = [*SECTIONS, "model"]
# Fields of `TransformerConfig` that no recipe has.
FOLLOWS_FROM_DATA = ("vocabulary_size", "source_vocabulary_size")

# What may change when a run is resumed: how long it trains, what it keeps, and
# on what devices. The run checks that updates have as many tokens.
CHANGEABLE_KEYS = tuple(
    f"{section}.{name}"
    for section, cls in SECTIONS.items()
    for name, rule in keys_of(cls).items()
    if rule.may_change
)


# In a file, the names of the values that followed from its preset.
_DERIVED = "derived"


def _with_preset_training(
    mapping: dict[str, Any],
) -> tuple[dict[str, Any], set[str]]:
    """Adds its preset's training where a recipe says nothing else."""
    model, training = mapping.get("model"), mapping.get("training")
    preset = model.get("preset") if isinstance(model, dict) else None
    # What is wrong here is an error later, with the rest of the recipe.
    if not isinstance(training, dict | None):
        return mapping, set()
    written = training or {}
    added = {
        name: value
        for name, value in _preset_training(preset).items()
        if name not in written
    }
    return (
        {**mapping, "training": {**added, **written}},
        {f"training.{name}" for name in added},
    )


def _preset_training(preset: Any) -> dict[str, Any]:
    """Returns the training of a preset, `{}` if there is no such preset."""
    return preset_training(preset) if preset in presets() else {}


def _gone_keys(section: str) -> set[str]:
    """Returns the keys that a section has no more."""
    prefix = f"{section}."
    return {key.removeprefix(prefix) for key in GONE if key.startswith(prefix)}


def _read_assignment(assignment: str) -> tuple[str, str, Any] | None:
    """Returns section, key and value of a string `section.key=value`.

    `None` for a key that is gone, at a value that says nothing.
    """
    key, equals, text = assignment.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and dot and name):
        raise InputError(
            "An override must be `section.key=value`, for example "
            f"`training.steps=1000`. Received: {assignment!r}."
        )
    if section not in _ALL_SECTIONS:
        raise InputError(unknown("section", section, _ALL_SECTIONS))
    cls = _model_class(name) if section == "model" else SECTIONS[section]
    prefix = f"{section}."
    if key in GONE:
        check_gone(key, read_yaml(text, f"The value of `{key}`"))
        return None
    value = read_assignment(cls, prefix, name, text)
    return section, name, field_value(cls, prefix, name, value)


def _read_model(mapping: dict[str, Any]) -> dict[str, Any]:
    return {
        key: field_value(_model_class(key), "model.", key, value)
        for key, value in mapping.items()
    }


@dataclasses.dataclass(frozen=True)
class _Preset:
    """Holds the one key of `model` that is no field of its config."""

    preset: str


def _model_class(key: str) -> type:
    """Returns the dataclass that a key of `model` is a field of."""
    fields = (field.name for field in dataclasses.fields(TransformerConfig))
    known = ["preset", *(f for f in fields if f not in FOLLOWS_FROM_DATA)]
    if key not in known:
        raise InputError(unknown("key", key, known, "model."))
    return _Preset if key == "preset" else TransformerConfig


def find_recipe(name: pathlib.Path | str) -> Recipe:
    """Returns a recipe by its path, or by its name in the zoo.

    Args:
        name: A string, the path of a YAML file, or of a folder with a
            `recipe.yaml`, such as a trained model; or a name of
            `zoo_recipes()`, before which these go.

    Raises:
        InputError: if there is no such recipe, or it is wrong.
    """
    path, name = pathlib.Path(name), str(name)
    if path.is_dir() and (path / "recipe.yaml").is_file():
        return Recipe.load(path / "recipe.yaml")
    if path.is_file():
        return Recipe.load(path)
    if name in zoo_recipes():
        return Recipe.load(zoo_directory() / name / "recipe.yaml")
    known = zoo_recipes()
    raise InputError(
        f"Unknown recipe {name!r}: neither a file nor one of the zoo."
        f"{did_you_mean(name, known)} Known: {', '.join(known)}."
    )


def _check_values(recipe: Recipe) -> None:
    """Checks the values of a recipe, each alone and all together."""
    _check_name(recipe.name)
    for section in ("data", "vocabulary", "training", "decoding"):
        check_section(getattr(recipe, section), section)
    _check_vocabulary(recipe)
    if recipe.data.tokenized and recipe.data.target_language is not None:
        raise InputError(
            "`data.target_language` is for BLEU by Moses' tokeniser, which "
            "texts that are tokenised already (`data.tokenized`) cannot take. "
            f"Received: {recipe.data.target_language!r}. Add "
            "data.target_language=null."
        )
    training = recipe.training
    if training.steps is None and training.epochs is None:
        raise InputError(
            "`training.steps` or `training.epochs` must say how long to "
            "train. Received: neither."
        )
    if training.average_last > training.keep_checkpoints:
        raise InputError(
            "`training.average_last` must not exceed "
            "`training.keep_checkpoints`: older checkpoints are deleted. "
            f"Received: {training.average_last} and "
            f"{training.keep_checkpoints}."
        )
    _check_averages(training)
    if training.best_by == "bleu" and training.bleu_every != 1:
        raise InputError(
            "`training.best_by: bleu` needs BLEU at every validation, "
            "`training.bleu_every: 1`. Received: "
            f"{training.bleu_every}."
        )


def _check_name(name: str) -> None:
    # The folder in `runs` is called so.
    if not name.strip(". ") or any(c in name for c in "/\\\0"):
        raise InputError(
            "`name` must be the name of a folder, without slashes. "
            f"Received: {name!r}."
        )


def _check_averages(training: TrainingSection) -> None:
    chosen = {
        f"`training.{name}`": value
        for name, value in (
            ("average_last", training.average_last or None),
            ("average_epochs", training.average_epochs or None),
            ("ema_momentum", training.ema_momentum),
        )
        if value is not None
    }
    if len(chosen) > 1:
        raise InputError(
            f"{' and '.join(chosen)} are {len(chosen)} ways to average "
            "weights: choose one. Received: "
            f"{' and '.join(map(str, chosen.values()))}."
        )


def _check_vocabulary(recipe: Recipe) -> None:
    section = recipe.vocabulary
    sides = [section.source_model, section.target_model]
    if section.joint and sides != [None, None]:
        raise InputError(
            "`vocabulary.source_model` and `vocabulary.target_model` are for "
            "`vocabulary.joint: false`; a joint one is `vocabulary.model`."
        )
    if not section.joint and (
        section.model is not None or sides.count(None) == 1
    ):
        raise InputError(
            "With `vocabulary.joint: false` give both "
            "`vocabulary.source_model` and `vocabulary.target_model`, or "
            "neither, and no `vocabulary.model`."
        )
    is_given = section.model is not None or None not in sides
    if is_given and recipe.training.start_from and section.from_start:
        raise InputError(
            "A vocabulary of one's own and `training.start_from` need "
            "`vocabulary.from_start: false`: else that model's vocabulary is "
            "taken."
        )


# What YAML says for nothing.
_NULLS = ("", "~", "null", "Null", "NULL")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def read_yaml(text: str, what: str) -> Any:
    """Returns what a text in YAML holds."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise InputError(f"{what} is not YAML: nested too deeply.") from error
    except (
        yaml.YAMLError,
        # Impossible dates and numbers, and tags on values of other kinds.
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
    ) as error:
        raise InputError(f"{what} is not YAML: {_one_line(error)}.") from error


def _one_line(error: Exception) -> str:
    """Says what is wrong and where, without the lines that YAML adds."""
    problem, mark = (
        getattr(error, name, None) for name in ("problem", "problem_mark")
    )
    if problem and mark:
        return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())


class _Loader(yaml.SafeLoader):
    """Refuses equal keys, and reads no number other than as it looks.

    Of equal keys PyYAML takes the last without a word.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # Each of a list of mappings may be a list again: a few lines would
        # fill the memory.
        merged = [value for key, value in node.value if key.value == "<<"]
        if len(merged) > 1 or any(
            isinstance(value, yaml.SequenceNode) for value in merged
        ):
            raise yaml.constructor.ConstructorError(
                None, None, "`<<` takes one mapping", node.start_mark
            )
        super().flatten_mapping(node)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        # In YAML 1.1, 010 is 8 and 1:30 is 90.
        if re.fullmatch(r"[-+]?0[0-9_]+|.*:.*", node.value):
            return node.value
        if node.tag.endswith("int"):
            return self.construct_yaml_int(node)
        return self.construct_yaml_float(node)

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        names = set()
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                    continue
                if key.value in names:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"{key.value!r} is there twice",
                        key.start_mark,
                    )
                names.add(key.value)
        return super().construct_mapping(node, deep)


for _kind in ("int", "float"):
    _Loader.add_constructor(
        f"tag:yaml.org,2002:{_kind}", _Loader.construct_number
    )


def read_assignment(cls: type, prefix: str, key: str, text: str) -> Any:
    """Returns the value that a command line gives to a field.

    It is written as in YAML; but what can only be a string, such as the name
    of a file, is taken as it stands, unless it is in quotes or null.
    """
    allowed = types_of(cls, prefix, key)
    if set(allowed) <= {str, types.NoneType}:
        if text in _NULLS:
            return None
        if text[0] not in "'\"":
            return text
    return read_yaml(
        text, f"The value of `{prefix}{key}`, {_short.repr(text)},"
    )
