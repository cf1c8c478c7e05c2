"""A recipe: everything that decides what a training run gives."""

import dataclasses
import pathlib

import yaml

from relative_attention.atomic_files import atomic_file
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig
from relative_attention.models import preset_config
from relative_attention.models import preset_training
from relative_attention.models import presets
from relative_attention.runs.recipe_checks import check_values
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.recipe_sections import VocabularySection
from relative_attention.runs.recipe_values import read_assignment
from relative_attention.runs.recipe_values import read_yaml
from relative_attention.settings import check_mapping
from relative_attention.settings import field_value
from relative_attention.settings import keys_of
from relative_attention.settings import read_section
from relative_attention.settings import unknown


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A training run, written down.

    Attributes:
        name: What the run is called.
        description: A sentence on what it is for.
        data: `DataSection`.
        vocabulary: `VocabularySection`.
        model: Dict: `preset`, the name of a preset, and any fields of
            `TransformerConfig` that differ from it.
        training: `TrainingSection`.
        decoding: `DecodingSection`.
    """

    name: str
    description: str = ""
    data: DataSection = DataSection()
    vocabulary: VocabularySection = VocabularySection()
    model: dict = dataclasses.field(default_factory=dict)
    training: TrainingSection = TrainingSection()
    decoding: DecodingSection = DecodingSection()

    @classmethod
    def load(cls, path):
        """Read a recipe from a YAML file.

        Args:
            path: path of the file. Its folder's name is the recipe's, or its
                own where it is not called `recipe.yaml`.

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
    def from_mapping(cls, mapping):
        """A recipe from nested dicts, as YAML gives them.

        Args:
            mapping: dict of the fields of `Recipe`, the sections as dicts.

        Raises:
            InputError: if a key is unknown or a value of another type.
        """
        mapping, derived = _with_preset_training(
            check_mapping(mapping, "recipe")
        )
        if "name" not in mapping:
            raise InputError("`name` must say what the recipe is called.")
        fields = {}
        for key, value in mapping.items():
            if key in _SECTIONS:
                fields[key] = read_section(
                    _SECTIONS[key], key, check_mapping(value, key)
                )
            elif key == "model":
                fields[key] = _check_model(check_mapping(value, key))
            else:
                fields[key] = field_value(cls, "", key, value)
        recipe = cls(**fields)
        if "preset" not in recipe.model:
            raise InputError(
                "`model.preset` must name a preset. See `relative-attention "
                "list`."
            )
        check_values(recipe)
        recipe.model_config(recipe.vocabulary.size)
        recipe._derived.update(derived)
        return recipe

    def __post_init__(self):
        # Names (`section.key`) of the values that nobody wrote: they follow
        # from the preset, and no longer when there is another. Not a field:
        # a recipe that is made of values alone has been told all of them.
        object.__setattr__(self, "_derived", set())

    def override(self, assignments):
        """A copy with some values replaced.

        Args:
            assignments: list of strings `section.key=value`, the value as in
                YAML; where it is the name of a file, as it stands.

        Raises:
            InputError: as `from_mapping`, or if an assignment is none.
        """
        mapping = self.to_mapping()
        derived = set(self._derived)
        for assignment in assignments:
            key, equals, value = assignment.partition("=")
            section, dot, name = key.partition(".")
            if not (equals and dot and name):
                raise InputError(
                    "An override must be `section.key=value`, for example "
                    f"`training.steps=1000`. Received: {assignment!r}."
                )
            if section not in _ALL_SECTIONS:
                raise InputError(unknown("section", section, _ALL_SECTIONS))
            mapping[section][name] = (
                _read_model_assignment(name, value)
                if section == "model"
                else read_assignment(
                    _SECTIONS[section], f"{section}.", name, value
                )
            )
            derived.discard(key)
        if mapping["model"].get("preset") != self.model.get("preset"):
            for key in derived:
                section, _, name = key.partition(".")
                mapping.get(section, {}).pop(name, None)
            derived = set()
        recipe = type(self).from_mapping(mapping)
        recipe._derived.update(derived)
        return recipe

    def to_mapping(self):
        """Nested dicts, from which `from_mapping` makes the same recipe."""
        return dataclasses.asdict(self)

    def save(self, path):
        """Write the recipe, every value of it, as YAML.

        What followed from the preset is named too, so that it follows from
        another where the file's preset is overridden.

        Args:
            path: path of the file.
        """
        mapping = self.to_mapping()
        if self._derived:
            mapping[_DERIVED] = sorted(self._derived)
        text = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True)
        with atomic_file(path, "w") as file:
            file.write(text)

    def model_config(self, vocabulary_size, source_vocabulary_size=None):
        """The architecture, for vocabularies of these sizes.

        Args:
            vocabulary_size: int. Of the target, or of both.
            source_vocabulary_size: int. Defaults to `None`, one vocabulary
                for both.

        Returns:
            `TransformerConfig`.

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


_SECTIONS = {
    "data": DataSection,
    "vocabulary": VocabularySection,
    "training": TrainingSection,
    "decoding": DecodingSection,
}
_ALL_SECTIONS = [*_SECTIONS, "model"]

# What may change when a run goes on: how long it goes, what it keeps, and on
# what devices; the run sees to it that updates have as many tokens.
CHANGEABLE_KEYS = tuple(
    f"{section}.{name}"
    for section, cls in _SECTIONS.items()
    for name, rule in keys_of(cls).items()
    if rule.may_change
)


# In a file, the names of the values that followed from its preset.
_DERIVED = "derived"


def _with_preset_training(mapping):
    """The recipe, with its preset's training where it says nothing else.

    Returns:
        Pair of the mapping and the set of names of what was added.
    """
    model, training = mapping.get("model"), mapping.get("training")
    preset = model.get("preset") if isinstance(model, dict) else None
    # What is wrong here is an error later, with the rest of the recipe.
    if preset not in presets() or not isinstance(training, dict | None):
        return mapping, set()
    filled = {**preset_training(preset), **(training or {})}
    derived = filled.keys() - (training or {}).keys()
    return (
        {**mapping, "training": filled},
        {f"training.{name}" for name in derived},
    )


def _check_model(mapping):
    values = {}
    for key, value in mapping.items():
        cls = _model_class(key)
        values[key] = field_value(cls, "model.", key, value)
    return values


def _read_model_assignment(key, text):
    return read_assignment(_model_class(key), "model.", key, text)


@dataclasses.dataclass(frozen=True)
class _Preset:
    preset: str


def _model_class(key):
    """The dataclass that a key of `model` is a field of.

    Raises:
        InputError: if it is none.
    """
    known = ["preset", *(f.name for f in dataclasses.fields(TransformerConfig))]
    # These two follow from the data.
    known.remove("vocabulary_size")
    known.remove("source_vocabulary_size")
    if key not in known:
        raise InputError(
            unknown("key", f"model.{key}", [f"model.{k}" for k in known])
        )
    return _Preset if key == "preset" else TransformerConfig
