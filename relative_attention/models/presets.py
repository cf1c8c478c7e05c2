"""Presets by name: their architectures, and how they were trained."""

import dataclasses
from typing import Any

from relative_attention.errors import did_you_mean
from relative_attention.models.preset_table import PRESETS
from relative_attention.models.transformer_config import TransformerConfig


def presets() -> list[str]:
    """Returns the names of the presets."""
    return list(PRESETS)


def preset_config(name: str, **overrides: Any) -> TransformerConfig:
    """Returns the `TransformerConfig` of a preset, with some fields replaced.

    Args:
        name: string. One of `presets()`.
        **overrides: fields of `TransformerConfig`; `vocabulary_size` among
            them.

    Returns:
        `TransformerConfig`.

    Raises:
        ValueError: if the name or a field is unknown, or a value wrong.
    """
    _check_name(name)
    return replace_fields(name, PRESETS[name].config, overrides)


def replace_fields(
    name: str, config: TransformerConfig, overrides: dict[str, Any]
) -> TransformerConfig:
    """Returns `config` with some fields replaced.

    Args:
        name: string. The preset that it is the config of, for the message.
        config: `TransformerConfig`.
        overrides: dict of fields.

    Raises:
        ValueError: if a field is unknown, or a value wrong.
    """
    fields = [field.name for field in dataclasses.fields(TransformerConfig)]
    for key in overrides:
        if key not in fields:
            raise ValueError(
                f"Unknown field {key!r} of preset {name!r}."
                f"{did_you_mean(key, fields)} Known: {', '.join(fields)}."
            )
    return dataclasses.replace(config, **overrides)


def preset_training(name: str) -> dict[str, float | bool]:
    """Returns how the authors of a preset trained it.

    Args:
        name: string. One of `presets()`. Those of this package's own have the
            paper's numbers.

    Returns:
        Dict, by the keys of a recipe's `training`: `learning_rate_scale`,
        `warmup_steps` and `zero_first_step` of `TransformerSchedule`,
        `adam_beta_2` (beta 1 is 0.9 and epsilon 1e-9 in all), and
        `label_smoothing` of `MaskedCrossEntropy`.

    Raises:
        ValueError: if the name is unknown.
    """
    _check_name(name)
    return dict(PRESETS[name].training)


def _check_name(name: str) -> None:
    if name not in PRESETS:
        raise ValueError(
            f"Unknown preset {name!r}.{did_you_mean(name, PRESETS)} "
            f"Known: {', '.join(PRESETS)}."
        )
