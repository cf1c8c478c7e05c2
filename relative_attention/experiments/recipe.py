"""A recipe: everything that decides what a training run gives."""

import dataclasses
import difflib
import pathlib
import types
import typing

import yaml

from relative_attention.errors import InputError
from relative_attention.experiments.recipe_sections import DataSection
from relative_attention.experiments.recipe_sections import DecodingSection
from relative_attention.experiments.recipe_sections import TrainingSection
from relative_attention.experiments.recipe_sections import VocabularySection
from relative_attention.models import TransformerConfig
from relative_attention.models import preset_config
from relative_attention.models import preset_training
from relative_attention.models import presets
from relative_attention.training import PRECISIONS


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
            mapping = yaml.safe_load(text)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"No recipe at {path}: {error}.") from error
        except yaml.YAMLError as error:
            raise InputError(f"{path} is not YAML: {error}.") from error
        name = (
            path.stem if path.stem != "recipe" else path.resolve().parent.name
        )
        return cls.from_mapping({"name": name, **_check_mapping(mapping, path)})

    @classmethod
    def from_mapping(cls, mapping):
        """A recipe from nested dicts, as YAML gives them.

        Args:
            mapping: dict of the fields of `Recipe`, the sections as dicts.

        Raises:
            InputError: if a key is unknown or a value of another type.
        """
        fields = {}
        for key, value in _with_preset_training(mapping).items():
            if key in _SECTIONS:
                fields[key] = _section(key, _check_mapping(value, key))
            elif key == "model":
                fields[key] = _check_model(_check_mapping(value, key))
            else:
                fields[key] = _field(cls, "", key, value)
        recipe = cls(**fields)
        recipe._check()
        return recipe

    def override(self, assignments):
        """A copy with some values replaced.

        Args:
            assignments: list of strings `section.key=value`, the value as in
                YAML.

        Raises:
            InputError: as `from_mapping`, or if an assignment is none.
        """
        mapping = self.to_mapping()
        for assignment in assignments:
            key, equals, value = assignment.partition("=")
            section, dot, name = key.partition(".")
            if not (equals and dot and name):
                raise InputError(
                    "An override must be `section.key=value`, for example "
                    f"`training.steps=1000`. Received: {assignment!r}."
                )
            if not isinstance(mapping.get(section), dict):
                raise InputError(_unknown("section", section, _ALL_SECTIONS))
            mapping[section][name] = yaml.safe_load(value)
        return type(self).from_mapping(mapping)

    def to_mapping(self):
        """Nested dicts, from which `from_mapping` makes the same recipe."""
        return dataclasses.asdict(self)

    def save(self, path):
        """Write the recipe, every value of it, as YAML.

        Args:
            path: path of the file.
        """
        text = yaml.safe_dump(
            self.to_mapping(), sort_keys=False, allow_unicode=True
        )
        pathlib.Path(path).write_text(text, encoding="utf-8")

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

    def _check(self):
        training = self.training
        if "preset" not in self.model:
            raise InputError(
                "`model.preset` must name a preset. See `relative-attention "
                "list`."
            )
        self.model_config(self.vocabulary.size)
        if training.steps is None and training.epochs is None:
            raise InputError(
                "`training.steps` or `training.epochs` must say how long to "
                "train. Received: neither."
            )
        for name, allowed in _CHOICES.items():
            value = getattr(training, name)
            is_number = isinstance(value, int) and name in _OR_NUMBER
            if value not in allowed and not is_number:
                number = "a number or " if name in _OR_NUMBER else ""
                raise InputError(
                    f"`training.{name}` must be {number}one of "
                    f"{', '.join(allowed)}. Received: {value!r}."
                )
        for name, least in _LEAST.items():
            section, key = name.split(".")
            value = getattr(getattr(self, section), key)
            if not isinstance(value, int | float):
                continue
            if value < least:
                raise InputError(
                    f"`{name}` must be at least {least}. Received: {value}."
                )
        for name in (
            "learning_rate_scale",
            "minutes",
            "save_minutes",
            "gradient_clip",
        ):
            value = getattr(training, name)
            if value is not None and value <= 0:
                raise InputError(
                    f"`training.{name}` must be positive. Received: {value}."
                )
        for name in ("label_smoothing", "adam_beta_2", "ema_momentum"):
            value = getattr(training, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(
                    f"`training.{name}` must be in [0, 1). Received: {value}."
                )
        if training.average_last > training.keep_checkpoints:
            raise InputError(
                "`training.average_last` must not exceed "
                "`training.keep_checkpoints`: older checkpoints are deleted. "
                f"Received: {training.average_last} and "
                f"{training.keep_checkpoints}."
            )
        if training.average_last and training.ema_momentum is not None:
            raise InputError(
                "`training.average_last` and `training.ema_momentum` are two "
                "ways to average weights: choose one. Received: "
                f"{training.average_last} and {training.ema_momentum}."
            )
        if training.best_by == "bleu" and training.bleu_every != 1:
            raise InputError(
                "`training.best_by: bleu` needs BLEU at every validation, "
                "`training.bleu_every: 1`. Received: "
                f"{training.bleu_every}."
            )


# The least value of each number that has one.
_LEAST = {
    "data.held_out": 1,
    "data.max_length": 2,
    "vocabulary.size": 1,
    "training.steps": 1,
    "training.epochs": 1,
    "training.validate_every": 1,
    "training.bleu_every": 0,
    "training.devices": 1,
    "training.batch_tokens": 1,
    "training.effective_batch_tokens": 1,
    "training.save_every": 1,
    "training.warmup_steps": 1,
    "training.keep_checkpoints": 1,
    "training.average_last": 0,
    "training.early_stopping": 0,
    "decoding.num_beams": 1,
    "decoding.length_penalty": 0,
    "decoding.max_extra_length": 0,
    "decoding.max_source_length": 2,
}
# What else a value may be, by name; two may be numbers, too.
_CHOICES = {
    "precision": PRECISIONS,
    "on_nonfinite": ("stop", "skip"),
    "best_by": ("loss", "bleu"),
    "devices": ("all",),
    "batch_tokens": ("auto",),
}
_OR_NUMBER = ("devices", "batch_tokens")
_SECTIONS = {
    "data": DataSection,
    "vocabulary": VocabularySection,
    "training": TrainingSection,
    "decoding": DecodingSection,
}
_ALL_SECTIONS = [*_SECTIONS, "model"]


def _section(name, mapping):
    cls = _SECTIONS[name]
    return cls(
        **{
            key: _field(cls, f"{name}.", key, value)
            for key, value in mapping.items()
        }
    )


def _field(cls, prefix, key, value):
    """`value` for the field `key` of a dataclass, if it is of its type."""
    hints = typing.get_type_hints(cls)
    if key not in hints:
        raise InputError(
            _unknown("key", prefix + key, [prefix + name for name in hints])
        )
    hint = hints[key]
    allowed = (
        typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    )
    if float in allowed and isinstance(value, (int, str)):
        # YAML reads 1e-3 as a string, and whole numbers as such.
        try:
            value = float(value)
        except ValueError:
            pass
    is_bool = isinstance(value, bool)
    if not isinstance(value, allowed) or (is_bool and bool not in allowed):
        names = " or ".join(
            "null" if t is type(None) else t.__name__ for t in allowed
        )
        raise InputError(
            f"`{prefix}{key}` must be {names}. Received: {value!r}."
        )
    return value


def _with_preset_training(mapping):
    """The recipe, with its preset's training where it says nothing else."""
    model, training = mapping.get("model"), mapping.get("training")
    preset = model.get("preset") if isinstance(model, dict) else None
    # What is wrong here is an error later, with the rest of the recipe.
    if preset not in presets() or not isinstance(training, dict | None):
        return mapping
    return {
        **mapping,
        "training": {**preset_training(preset), **(training or {})},
    }


def _check_model(mapping):
    known = [
        "preset",
        *(
            field.name
            for field in dataclasses.fields(TransformerConfig)
            # These two follow from the data.
            if field.name not in ("vocabulary_size", "source_vocabulary_size")
        ),
    ]
    for key in mapping:
        if key not in known:
            raise InputError(
                _unknown("key", f"model.{key}", [f"model.{k}" for k in known])
            )
    return dict(mapping)


def _check_mapping(value, where):
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(
            f"`{where}` must hold `key: value` lines. Received: {value!r}."
        )
    return value


def _unknown(what, name, known):
    close = difflib.get_close_matches(name, known, n=1)
    nearest = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown {what} {name!r}.{nearest} Known: {', '.join(known)}."
