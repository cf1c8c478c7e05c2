"""Recipes, which hold everything that decides what a training run gives."""

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

import yaml

from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.models import TransformerConfig
from relative_attention.models import preset_config
from relative_attention.models import preset_training
from relative_attention.models import presets
from relative_attention.runs.recipe_checks import check_values
from relative_attention.runs.recipe_sections import GONE
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.recipe_sections import VocabularySection
from relative_attention.runs.recipe_sections import check_gone
from relative_attention.runs.recipe_values import read_assignment
from relative_attention.runs.recipe_values import read_yaml
from relative_attention.settings import check_mapping
from relative_attention.settings import field_value
from relative_attention.settings import keys_of
from relative_attention.settings import read_section
from relative_attention.settings import unknown


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
        # Names (`section.key`) of the values that nobody wrote: they follow
        # from the preset, and no longer when there is another. Not a field:
        # a recipe that is made of values alone has been told all of them.
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
        check_values(self)
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

# What may change when a run goes on: how long it goes, what it keeps, and on
# what devices; the run sees to it that updates have as many tokens.
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
    """Adds its preset's training where a recipe says nothing else.

    Returns:
        A pair of the mapping and the set of names of what was added.
    """
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
    """Returns the dataclass that a key of `model` is a field of.

    Raises:
        InputError: if there is no such key.
    """
    fields = (field.name for field in dataclasses.fields(TransformerConfig))
    known = ["preset", *(f for f in fields if f not in FOLLOWS_FROM_DATA)]
    if key not in known:
        raise InputError(
            unknown("key", f"model.{key}", [f"model.{k}" for k in known])
        )
    return _Preset if key == "preset" else TransformerConfig
