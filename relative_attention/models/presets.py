"""The presets: named architectures, each with all of its numbers.

Presets come in pairs, with sinusoidal and with relative positions. A pair has
the numbers given here and those of its family (`_PAPER`, `_TENSOR2TENSOR`);
none is derived from another. A name may also be that of a bundled trained model
(`find_preset`).
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.errors import did_you_mean
from relative_attention.models.config import TransformerConfig
from relative_attention.models.config import saved_fields
from relative_attention.zoo import check_has_weights
from relative_attention.zoo import zoo_directory
from relative_attention.zoo import zoo_models


@dataclasses.dataclass(frozen=True)
class Preset:
    """An architecture, and how its authors trained it.

    Attributes:
        config: `TransformerConfig`, without the size of the vocabulary.
        training: Mapping of the keys of a recipe's `training` to numbers.
    """

    config: TransformerConfig
    training: Mapping[str, float | bool]


def _pair(
    absolute: str,
    relative: str,
    training: Mapping[str, float | bool],
    num_layers: int,
    max_relative_position: int,
    share_relations_across_heads: bool,
    **fields: Any,
) -> dict[str, Preset]:
    """Makes two presets, which only differ in their positions."""
    sinusoidal = TransformerConfig(
        # The vocabulary belongs to the data.
        vocabulary_size=1,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        position_encoding="sinusoidal",
        layer_norm_epsilon=1e-6,
        share_embeddings="all",
        **fields,
    )
    relations = dataclasses.replace(
        sinusoidal,
        position_encoding="relative",
        max_relative_position=max_relative_position,
        share_relations_across_heads=share_relations_across_heads,
    )
    return {
        absolute: Preset(sinusoidal, training),
        relative: Preset(relations, training),
    }


# Section 4.1 of Shaw et al. (2018), which follows Vaswani et al. (2017).
_PAPER_TRAINING = {
    "learning_rate_scale": 1.0,
    "warmup_steps": 4000,
    "zero_first_step": False,
    "adam_beta_2": 0.98,
    "label_smoothing": 0.1,
}

# tensor2tensor's since its third version.
_TENSOR2TENSOR_TRAINING = {
    "learning_rate_scale": 2.0,
    "warmup_steps": 8000,
    "zero_first_step": True,
    "adam_beta_2": 0.997,
    "label_smoothing": 0.1,
}

# Vaswani et al. (2017), section 5.4: dropout on sublayers and embeddings, none
# inside them. Post-norm, as in tensor2tensor then.
_PAPER: dict[str, Any] = {
    "normalize_first": False,
    "attention_dropout": 0.0,
    "intermediate_dropout": 0.0,
}

# Pre-norm, dropout inside attention and feed-forward layers too, and a
# target-space embedding.
_TENSOR2TENSOR: dict[str, Any] = {
    "normalize_first": True,
    "attention_dropout": 0.1,
    "intermediate_dropout": 0.1,
    "use_target_space_embedding": True,
}

PRESETS = {
    # Shaw et al. (2018), section 4.1: "base" of Vaswani et al. (2017), Table 3,
    # with another feed-forward width; K = 16, "unique edge representations per
    # layer and head".
    **_pair(
        "transformer_base",
        "transformer_base_relative",
        _PAPER_TRAINING,
        num_layers=6,
        hidden_dim=512,
        intermediate_dim=1024,
        num_heads=8,
        dropout=0.1,
        max_relative_position=16,
        share_relations_across_heads=False,
        **_PAPER,
    ),
    # Shaw et al. (2018), section 4.1. Dropout 0.3 for English to German; K = 8,
    # "unique edge representations per layer".
    **_pair(
        "transformer_big",
        "transformer_big_relative",
        _PAPER_TRAINING,
        num_layers=6,
        hidden_dim=1024,
        intermediate_dim=4096,
        num_heads=16,
        dropout=0.3,
        max_relative_position=8,
        share_relations_across_heads=True,
        **_PAPER,
    ),
    # tensor2tensor: transformer_base (its third version), transformer_relative.
    **_pair(
        "t2t_transformer_base",
        "t2t_transformer_relative",
        _TENSOR2TENSOR_TRAINING,
        num_layers=6,
        hidden_dim=512,
        intermediate_dim=2048,
        num_heads=8,
        dropout=0.1,
        max_relative_position=20,
        share_relations_across_heads=True,
        **_TENSOR2TENSOR,
    ),
    # tensor2tensor: transformer_big, transformer_relative_big.
    **_pair(
        "t2t_transformer_big",
        "t2t_transformer_relative_big",
        _TENSOR2TENSOR_TRAINING,
        num_layers=6,
        hidden_dim=1024,
        intermediate_dim=4096,
        num_heads=16,
        dropout=0.3,
        max_relative_position=20,
        share_relations_across_heads=True,
        **_TENSOR2TENSOR,
    ),
    # This package's, for one CPU: the sizes at which it and OpenNMT-tf are
    # compared.
    **_pair(
        "transformer_small",
        "transformer_small_relative",
        _PAPER_TRAINING,
        num_layers=3,
        hidden_dim=256,
        intermediate_dim=1024,
        num_heads=4,
        dropout=0.1,
        max_relative_position=16,
        share_relations_across_heads=True,
        normalize_first=True,
        attention_dropout=0.1,
        intermediate_dropout=0.1,
    ),
    # Wu et al. (2021), "Transformer-tiny" for Multi30k; K = 16 is ours.
    # Pre-norm, which trains stably at a high rate without tuning.
    **_pair(
        "transformer_tiny",
        "transformer_tiny_relative",
        _PAPER_TRAINING,
        num_layers=4,
        hidden_dim=128,
        intermediate_dim=256,
        num_heads=4,
        dropout=0.3,
        max_relative_position=16,
        share_relations_across_heads=True,
        normalize_first=True,
        attention_dropout=0.0,
        intermediate_dropout=0.0,
    ),
}


def presets() -> list[str]:
    """Returns the names of the presets."""
    return list(PRESETS)


def preset_config(name: str, **overrides: Any) -> TransformerConfig:
    """Returns the `TransformerConfig` of a preset, with some fields replaced.

    Args:
        name: string. One of `presets()`.
        **overrides: fields of `TransformerConfig`, including
            `vocabulary_size`.

    Returns:
        `TransformerConfig`.

    Raises:
        ValueError: if the name or a field is unknown, or a value wrong.
    """
    return _replace_fields(name, _known(name).config, overrides)


def preset_training(name: str) -> dict[str, float | bool]:
    """Returns how the authors of a preset trained it.

    Args:
        name: string. One of `presets()`. The package's own presets have the
            paper's numbers.

    Returns:
        Dict with keys of a recipe's `training`: `learning_rate_scale`,
        `warmup_steps` and `zero_first_step` of `TransformerSchedule`,
        `adam_beta_2` (beta 1 is 0.9 and epsilon 1e-9 in all), and
        `label_smoothing` of `MaskedCrossEntropy`.

    Raises:
        ValueError: if the name is unknown.
    """
    return dict(_known(name).training)


def find_preset(
    name: str, overrides: dict[str, Any]
) -> tuple[TransformerConfig, pathlib.Path | None]:
    """Returns config and weights of an architecture or of a bundled model.

    An architecture has no path of weights, and needs `vocabulary_size`.
    """
    trained = zoo_models()
    if name in trained:
        folder = zoo_directory() / name
        saved = json.loads((folder / "config.json").read_text("utf-8"))
        config = TransformerConfig(**saved_fields(saved["model"]))
        return (
            _replace_fields(name, config, overrides),
            folder / "model.safetensors",
        )
    check_has_weights(name)
    config = _known(name, trained).config
    if "vocabulary_size" not in overrides:
        raise ValueError(
            f"`vocabulary_size` must be given: {name!r} is an architecture, "
            "whose weights are to be learned."
        )
    return _replace_fields(name, config, overrides), None


def _replace_fields(
    name: str, config: TransformerConfig, overrides: dict[str, Any]
) -> TransformerConfig:
    """Returns the config of a preset with some fields replaced."""
    fields = [field.name for field in dataclasses.fields(TransformerConfig)]
    for key in overrides:
        if key not in fields:
            raise ValueError(
                f"Unknown field {key!r} of preset {name!r}."
                f"{did_you_mean(key, fields)} Known: {', '.join(fields)}."
            )
    return dataclasses.replace(config, **overrides)


def _known(name: str, trained: Sequence[str] = ()) -> Preset:
    """Returns a preset; the error for an unknown name lists all names."""
    if name not in PRESETS:
        weights = f"With weights: {', '.join(trained)}. " if trained else ""
        raise ValueError(
            f"Unknown preset {name!r}."
            f"{did_you_mean(name, [*PRESETS, *trained])} {weights}"
            f"Known: {', '.join(PRESETS)}."
        )
    return PRESETS[name]
