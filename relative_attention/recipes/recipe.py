"""Recipes, which hold all settings of a training run.

Each key is declared in `sections.py`; those of `model` and `decoding` in
`TransformerConfig` and `DecodingSection`. `Recipe.from_mapping` checks every
recipe, from a file or from the command line.
"""

import dataclasses
import pathlib
import reprlib
import types
from collections.abc import Iterable
from collections.abc import Mapping
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
from relative_attention.recipes.sections import AUTO
from relative_attention.recipes.sections import DataSection
from relative_attention.recipes.sections import ModelKeys
from relative_attention.recipes.sections import TrainingSection
from relative_attention.recipes.sections import VocabularySection
from relative_attention.schema import check_mapping
from relative_attention.schema import field_value
from relative_attention.schema import keys_of
from relative_attention.schema import read_section
from relative_attention.schema import types_of
from relative_attention.schema import unknown
from relative_attention.strict_yaml import read_yaml
from relative_attention.strict_yaml import read_yaml_file
from relative_attention.zoo import zoo_directory
from relative_attention.zoo import zoo_recipes


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a training run.

    Attributes:
        name: A string, the name of the run.
        description: A sentence about its purpose.
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

    # The keys that the recipe omits, such as `training.warmup_steps`, whose
    # values come from the preset. This is not a field: if a recipe is made by
    # its constructor, no value counts as from the preset.
    _derived = frozenset[str]()
    # The keys that were replaced, which a model to start from may not change.
    _given = frozenset[str]()

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "Recipe":
        """Reads a recipe from a YAML file.

        Args:
            path: The path of the file. The recipe is named after its folder,
                or after the file if it is not called `recipe.yaml`.

        Raises:
            InputError: if it is not a recipe: not YAML, an unknown key, or a
                value of the wrong type.
        """
        path = pathlib.Path(path)
        mapping = read_yaml_file(path, "recipe")
        name = path.stem
        if name == "recipe":
            name = path.resolve().parent.name
        return cls.from_mapping({"name": name, **mapping})

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> "Recipe":
        """Returns a recipe from nested dicts, as YAML gives them.

        Args:
            mapping: A dict of the fields of `Recipe`, the sections as dicts;
                and `derived`, if `save` wrote it.

        Raises:
            InputError: if a key is unknown, or a value has the wrong type or
                is not allowed.
        """
        mapping = dict(check_mapping(mapping, "recipe"))
        if "name" not in mapping:
            raise InputError("`name` must say what the recipe is called.")
        derived = mapping.pop("derived", None) or []
        if not isinstance(derived, list) or not all(
            isinstance(key, str) for key in derived
        ):
            raise InputError(
                "`derived` must be a list of keys, as `save` writes it."
            )
        sections = {
            name: dict(check_mapping(mapping.pop(name, None), name))
            for name in _ALL_SECTIONS
        }
        training = _preset_training(sections["model"].get("preset"))
        omitted = training.keys() - sections["training"].keys()
        sections["training"] = {**training, **sections["training"]}
        fields = {
            name: field_value(cls, "", name, value)
            for name, value in mapping.items()
        }
        fields["model"] = {
            key: field_value(_model_class(key), "model.", key, value)
            for key, value in sections["model"].items()
        }
        for name, section_class in SECTIONS.items():
            fields[name] = read_section(section_class, name, sections[name])
        recipe = cls(**fields)
        names = {*derived, *(f"training.{key}" for key in omitted)}
        object.__setattr__(recipe, "_derived", frozenset(names))
        _check_together(recipe)
        return recipe

    def replace(self, values: Mapping[str, Any]) -> "Recipe":
        """Returns a copy with some values replaced.

        If `model.preset` changes, values that came from the old preset come
        from the new one.

        Args:
            values: A dict of `section.key` to value.

        Raises:
            InputError: as `from_mapping`.

        Example:
        >>> recipe = ra.find_recipe("small_relative")
        >>> recipe = recipe.replace({"training.steps": 1000})
        """
        mapping = self.to_mapping()
        derived = set(self._derived)
        for name, value in values.items():
            section, key = _section_and_key(name)
            mapping[section][key] = value
            derived.discard(name)
        preset = mapping["model"].get("preset")
        if preset != self.model.get("preset"):
            for key in _preset_training(preset):
                if f"training.{key}" in derived:
                    del mapping["training"][key]
        recipe = Recipe.from_mapping({**mapping, "derived": [*derived]})
        object.__setattr__(recipe, "_given", self._given | values.keys())
        return recipe

    def is_given(self, key: str) -> bool:
        """Returns whether `replace` or `override` set a value.

        Args:
            key: A string `section.key`.
        """
        return key in self._given

    def override(self, assignments: Iterable[str]) -> "Recipe":
        """Returns a copy with values of the command line; see `replace`.

        Args:
            assignments: A list of strings `section.key=value`, with the value
                in YAML; names of files are used literally.

        Raises:
            InputError: as `from_mapping`, or if a string is not an assignment.
        """
        return self.replace(read_assignments(assignments))

    def to_mapping(self) -> dict[str, Any]:
        """Returns nested dicts, which `from_mapping` reads."""
        return dataclasses.asdict(self)

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the recipe with all values, as YAML.

        Keys whose values came from the preset are listed (`derived`), so that
        they change if the file's preset is overridden.

        Args:
            path: The path of the file.
        """
        mapping = self.to_mapping()
        if self._derived:
            mapping["derived"] = sorted(self._derived)
        with atomic_file(path, "w") as file:
            yaml.safe_dump(mapping, file, sort_keys=False, allow_unicode=True)

    def model_config(
        self, vocabulary_size: int, source_vocabulary_size: int | None = None
    ) -> TransformerConfig:
        """Returns the architecture, for vocabularies of these sizes.

        Args:
            vocabulary_size: An integer, the size of the target vocabulary, or
                of a joint one.
            source_vocabulary_size: An integer, the size of the source
                vocabulary. Defaults to `None`, a joint one.

        Raises:
            InputError: if a field of `model` is unknown, or a value is wrong.
        """
        fields = {**self.model, "vocabulary_size": vocabulary_size}
        preset = fields.pop("preset")
        if fields.get("dropout") == AUTO:
            # Chosen when a run starts; the preset's is as good for a check.
            del fields["dropout"]
        if source_vocabulary_size is not None:
            fields.setdefault("share_embeddings", "target")
            fields["source_vocabulary_size"] = source_vocabulary_size
        try:
            return preset_config(preset, **fields)
        except ValueError as error:
            raise InputError(f"In `model`: {error}") from error


def find_recipe(name: pathlib.Path | str) -> Recipe:
    """Returns a recipe by its path, or by its name in the package.

    Args:
        name: A string, the path of a YAML file or of a folder with a
            `recipe.yaml`, such as a trained model; or a name of
            `zoo_recipes()`. Paths take precedence. A module that only the
            recipe names, of a position encoding of your own such as
            `mymodule:LogBias`, is not imported: import it first.

    Raises:
        InputError: if there is no such recipe, or it is wrong.
    """
    path = pathlib.Path(name)
    for file in (path / "recipe.yaml", path):
        if file.is_file():
            return Recipe.load(file)
    known = zoo_recipes()
    if str(name) in known:
        return Recipe.load(zoo_directory() / name / "recipe.yaml")
    raise InputError(
        f"Unknown recipe {str(name)!r}: neither a file nor one that comes "
        "with the package."
        f"{did_you_mean(name, known)} Known: {', '.join(known)}."
    )


# === Keys ===

SECTIONS = {
    "data": DataSection,
    "vocabulary": VocabularySection,
    "training": TrainingSection,
    "decoding": DecodingSection,
}
_ALL_SECTIONS = [*SECTIONS, "model"]
# Fields of `TransformerConfig` that recipes do not have.
SIZES_OF_VOCABULARIES = ("vocabulary_size", "source_vocabulary_size")


def values_by_key(recipe: Recipe) -> dict[str, Any]:
    """Returns the values of all sections of a recipe by `section.key`."""
    mapping = recipe.to_mapping()
    return {
        f"{section}.{key}": value
        for section in _ALL_SECTIONS
        for key, value in mapping[section].items()
    }


# Keys that may change on resume: when training ends, what is kept, and the
# devices. The run checks that updates keep their number of tokens.
CHANGEABLE_KEYS = tuple(
    f"{section}.{name}"
    for section, section_class in SECTIONS.items()
    for name, rule in keys_of(section_class).items()
    if rule.may_change
)


def _model_class(key: str) -> type:
    """Returns the dataclass that has a key of `model`."""
    if key in keys_of(ModelKeys):
        return ModelKeys
    known = ["preset", *keys_of(TransformerConfig)]
    known = [name for name in known if name not in SIZES_OF_VOCABULARIES]
    if key not in known:
        raise InputError(unknown("key", key, known, "model."))
    return TransformerConfig


def _preset_training(preset: Any) -> dict[str, Any]:
    """Returns the training of a preset, `{}` if there is no such preset."""
    return preset_training(preset) if preset in presets() else {}


def _check_together(recipe: Recipe) -> None:
    """Checks values of a recipe that depend on each other."""
    data, training = recipe.data, recipe.training
    # It is the name of the folder in `runs`.
    if not recipe.name.strip(". ") or set(recipe.name) & set("/\\\0"):
        raise InputError(
            "`name` must be the name of a folder, without slashes. "
            f"Received: {recipe.name!r}."
        )
    if "preset" not in recipe.model:
        raise InputError(
            "`model.preset` must name a preset. See `relative-attention list`."
        )
    _check_vocabulary(recipe)
    if data.tokenized and data.target_language is not None:
        raise InputError(
            "`data.target_language` is for BLEU by Moses' tokenizer, which "
            "pre-tokenized texts (`data.tokenized`) cannot take. "
            f"Received: {data.target_language!r}. Add "
            "data.target_language=null."
        )
    if data.tokenized and data.variants:
        raise InputError(
            "`data.variants` are of text as people write it, not of "
            "pre-tokenized texts (`data.tokenized`). "
            f"Received: {data.variants}. Add data.variants=0."
        )
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
    averages = {
        "`training.average_last`": training.average_last or None,
        "`training.average_epochs`": training.average_epochs or None,
        "`training.ema_momentum`": training.ema_momentum,
    }
    chosen = {k: str(v) for k, v in averages.items() if v is not None}
    if len(chosen) > 1:
        raise InputError(
            f"{' and '.join(chosen)} are {len(chosen)} ways to average "
            f"weights: choose one. Received: {' and '.join(chosen.values())}."
        )
    if training.best_by == "bleu" and training.bleu_every != 1:
        raise InputError(
            "`training.best_by: bleu` needs BLEU at every validation, "
            f"`training.bleu_every: 1`. Received: {training.bleu_every}."
        )
    # The architecture is checked with any size of the vocabulary.
    recipe.model_config(vocabulary_size=8000)


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
    shared = recipe.model.get("share_embeddings")
    if not section.joint and shared in ("all", "source_target"):
        raise InputError(
            f"`model.share_embeddings: {shared}` needs one vocabulary for both "
            "sides, and `vocabulary.joint` is false: equal ids would be "
            "different words. Choose target or none."
        )
    is_given = section.model is not None or None not in sides
    if is_given and recipe.training.start_from and section.from_start:
        raise InputError(
            "Your own vocabulary with `training.start_from` needs "
            "`vocabulary.from_start: false`: else that model's vocabulary is "
            "taken."
        )


# === The command line ===

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def read_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Returns the values of strings `section.key=value`, by `section.key`.

    A value is YAML. Values of keys that can only be strings, such as names of
    files, are used literally, unless they are in quotes or null.
    """
    values = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.partition(".")[2]:
            raise InputError(
                "An override must be `section.key=value`, for example "
                f"`training.steps=1000`. Received: {assignment!r}."
            )
        values[name] = _read_value(name, text)
    return values


def _section_and_key(name: str) -> tuple[str, str]:
    section, _, key = name.partition(".")
    if section not in _ALL_SECTIONS:
        raise InputError(unknown("section", section, _ALL_SECTIONS))
    return section, key


def _read_value(name: str, text: str) -> Any:
    section, key = _section_and_key(name)
    cls = _model_class(key) if section == "model" else SECTIONS[section]
    allowed = types_of(cls, f"{section}.", key)
    is_text = set(allowed) <= {str, types.NoneType}
    nulls = ("", "~", "null", "Null", "NULL")
    if is_text and text not in nulls and text[0] not in "'\"":
        return text
    return read_yaml(text, f"The value of `{name}`, {_short.repr(text)},")
