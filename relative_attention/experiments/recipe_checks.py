"""What the values of a recipe may be, alone and together."""

from relative_attention.errors import InputError
from relative_attention.training.precision import PRECISIONS

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
    "training.seed": 0,
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


def check_values(recipe):
    """Raise `InputError` unless the values of a `Recipe` can be trained with.

    Its types have been checked; see `field_value`.
    """
    _check_name(recipe.name)
    _check_numbers(recipe)
    _check_vocabulary(recipe)
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


def _check_numbers(recipe):
    training = recipe.training
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
        value = getattr(getattr(recipe, section), key)
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


def _check_name(name):
    """It is the name of the folder that a run fills, in `runs`."""
    if not name.strip(". ") or any(c in name for c in "/\\\0"):
        raise InputError(
            "`name` must be the name of a folder, without slashes. "
            f"Received: {name!r}."
        )


def _check_vocabulary(recipe):
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
