"""The config and weights that a preset's name stands for."""

import pathlib
from typing import Any

from relative_attention.errors import did_you_mean
from relative_attention.models.presets import preset_config
from relative_attention.models.presets import presets
from relative_attention.models.presets import replace_fields
from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.models.zoo_weights import zoo_config
from relative_attention.models.zoo_weights import zoo_weights
from relative_attention.zoo import zoo_models


def find_preset(
    name: str, overrides: dict[str, Any]
) -> tuple[TransformerConfig, pathlib.Path | None]:
    """Returns config and weights of an architecture, or of the zoo's model.

    Args:
        name: string. One of `presets()` or of `zoo_models()`.
        overrides: dict of fields of `TransformerConfig`.

    Returns:
        Pair of a `TransformerConfig`, and the path of its weights or `None`.

    Raises:
        ValueError: if the name or a field is unknown, a value wrong, or an
            architecture is to have no `vocabulary_size`.
    """
    trained = zoo_models()
    if name in trained:
        config = replace_fields(name, zoo_config(name), overrides)
        return config, zoo_weights(name)
    if name not in presets():
        known = [*presets(), *trained]
        raise ValueError(
            f"Unknown preset {name!r}.{did_you_mean(name, known)} With "
            f"weights: {', '.join(trained) or 'none'}. Known: "
            f"{', '.join(presets())}."
        )
    if "vocabulary_size" not in overrides:
        raise ValueError(
            f"`vocabulary_size` must be given: {name!r} is an architecture, "
            "whose weights are to be learnt."
        )
    return preset_config(name, **overrides), None
