"""Named architectures, each with every number in it."""

import dataclasses

from relative_attention.did_you_mean import did_you_mean
from relative_attention.models.transformer_config import TransformerConfig

# The vocabulary belongs to the data; presets hold everything else.
_NO_VOCABULARY = 1

# Vaswani et al. (2017), Table 3, "base", with the feed-forward width that Shaw
# et al. (2018) give in section 4.1; post-norm, as tensor2tensor was then.
_BASE = TransformerConfig(
    vocabulary_size=_NO_VOCABULARY,
    num_encoder_layers=6,
    num_decoder_layers=6,
    hidden_dim=512,
    intermediate_dim=1024,
    num_heads=8,
    position_encoding="sinusoidal",
    normalize_first=False,
    dropout=0.1,
    attention_dropout=0.0,
    intermediate_dropout=0.0,
    share_embeddings="all",
)

# Shaw et al. (2018), section 4.1, "big"; dropout 0.3 for English to German.
_BIG = dataclasses.replace(
    _BASE,
    hidden_dim=1024,
    intermediate_dim=4096,
    num_heads=16,
    dropout=0.3,
)

# tensor2tensor's transformer_base (its third version): pre-norm, dropout inside
# attention and feed-forward layers too, and a target-space embedding.
_T2T_BASE = dataclasses.replace(
    _BASE,
    intermediate_dim=2048,
    normalize_first=True,
    attention_dropout=0.1,
    intermediate_dropout=0.1,
    use_target_space_embedding=True,
)
_T2T_BIG = dataclasses.replace(
    _T2T_BASE,
    hidden_dim=1024,
    intermediate_dim=4096,
    num_heads=16,
    dropout=0.3,
)

# "Transformer-tiny" of Wu et al. (2021) for Multi30k. Pre-norm, which trains
# stably at a high rate without tuning.
_TINY = TransformerConfig(
    vocabulary_size=_NO_VOCABULARY,
    num_encoder_layers=4,
    num_decoder_layers=4,
    hidden_dim=128,
    intermediate_dim=256,
    num_heads=4,
    position_encoding="sinusoidal",
    normalize_first=True,
    dropout=0.3,
    attention_dropout=0.0,
    intermediate_dropout=0.0,
    share_embeddings="all",
)

# For one CPU: the sizes at which this package and OpenNMT-tf are compared.
_SMALL = TransformerConfig(
    vocabulary_size=_NO_VOCABULARY,
    num_encoder_layers=3,
    num_decoder_layers=3,
    hidden_dim=256,
    intermediate_dim=1024,
    num_heads=4,
    position_encoding="sinusoidal",
    normalize_first=True,
    dropout=0.1,
    attention_dropout=0.1,
    intermediate_dropout=0.1,
    share_embeddings="all",
)


def _relative(config, max_relative_position, share_relations_across_heads):
    return dataclasses.replace(
        config,
        position_encoding="relative",
        max_relative_position=max_relative_position,
        share_relations_across_heads=share_relations_across_heads,
    )


_PRESETS = {
    "transformer_base": _BASE,
    # Section 4.1: K = 16, "unique edge representations per layer and head".
    "transformer_base_relative": _relative(_BASE, 16, False),
    "transformer_big": _BIG,
    # Section 4.1: K = 8, "unique edge representations per layer".
    "transformer_big_relative": _relative(_BIG, 8, True),
    "t2t_transformer_base": _T2T_BASE,
    "t2t_transformer_relative": _relative(_T2T_BASE, 20, True),
    "t2t_transformer_big": _T2T_BIG,
    "t2t_transformer_relative_big": _relative(_T2T_BIG, 20, True),
    "transformer_small": _SMALL,
    "transformer_small_relative": _relative(_SMALL, 16, True),
    "transformer_tiny": _TINY,
    "transformer_tiny_relative": _relative(_TINY, 16, True),
}


# How the weights are learnt, by the keys of a recipe's `training`. Section 4.1
# of Shaw et al. (2018), which follows Vaswani et al. (2017).
_PAPER_TRAINING = {
    "learning_rate_scale": 1.0,
    "warmup_steps": 4000,
    "zero_first_step": False,
    "adam_beta_2": 0.98,
    "label_smoothing": 0.1,
}

# tensor2tensor's since its third version.
_T2T_TRAINING = {
    "learning_rate_scale": 2.0,
    "warmup_steps": 8000,
    "zero_first_step": True,
    "adam_beta_2": 0.997,
    "label_smoothing": 0.1,
}


def presets():
    """Names of the presets, a list of strings."""
    return list(_PRESETS)


def preset_config(name, **overrides):
    """The `TransformerConfig` of a preset, with some fields replaced.

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
    return replace_fields(name, _PRESETS[name], overrides)


def replace_fields(name, config, overrides):
    """`config` with some fields replaced.

    Args:
        name: string. What it is the config of, for the message.
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


def preset_training(name):
    """How the authors of a preset learnt its weights.

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
    is_t2t = name.startswith("t2t_")
    return dict(_T2T_TRAINING if is_t2t else _PAPER_TRAINING)


def _check_name(name):
    if name not in _PRESETS:
        raise ValueError(
            f"Unknown preset {name!r}.{did_you_mean(name, _PRESETS)} "
            f"Known: {', '.join(_PRESETS)}."
        )
