"""The presets: named architectures, each with every number in it.

A preset is read as it stands here: none is made from another.
"""

import dataclasses
from collections.abc import Mapping

from relative_attention.models.transformer_config import TransformerConfig


@dataclasses.dataclass(frozen=True)
class Preset:
    """An architecture, how its authors trained it, and where that is written.

    Attributes:
        config: `TransformerConfig`. The vocabulary belongs to the data; all
            else is here.
        training: Mapping of the keys of a recipe's `training` to numbers.
        source: Where the numbers are from.
    """

    config: TransformerConfig
    training: Mapping[str, float | bool]
    source: str


_NO_VOCABULARY = 1

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

PRESETS = {
    # Vaswani et al. (2017), Table 3, "base", with the feed-forward width that
    # Shaw et al. (2018) give in section 4.1; post-norm, as in tensor2tensor
    # then.
    "transformer_base": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=512,
            intermediate_dim=1024,
            num_heads=8,
            position_encoding="sinusoidal",
            normalize_first=False,
            layer_norm_epsilon=1e-6,
            dropout=0.1,
            attention_dropout=0.0,
            intermediate_dropout=0.0,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="Shaw et al. (2018), section 4.1",
    ),
    # K = 16, "unique edge representations per layer and head".
    "transformer_base_relative": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=512,
            intermediate_dim=1024,
            num_heads=8,
            position_encoding="relative",
            max_relative_position=16,
            share_relations_across_heads=False,
            normalize_first=False,
            layer_norm_epsilon=1e-6,
            dropout=0.1,
            attention_dropout=0.0,
            intermediate_dropout=0.0,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="Shaw et al. (2018), section 4.1",
    ),
    # Dropout 0.3 for English to German.
    "transformer_big": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=1024,
            intermediate_dim=4096,
            num_heads=16,
            position_encoding="sinusoidal",
            normalize_first=False,
            layer_norm_epsilon=1e-6,
            dropout=0.3,
            attention_dropout=0.0,
            intermediate_dropout=0.0,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="Shaw et al. (2018), section 4.1",
    ),
    # K = 8, "unique edge representations per layer".
    "transformer_big_relative": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=1024,
            intermediate_dim=4096,
            num_heads=16,
            position_encoding="relative",
            max_relative_position=8,
            share_relations_across_heads=True,
            normalize_first=False,
            layer_norm_epsilon=1e-6,
            dropout=0.3,
            attention_dropout=0.0,
            intermediate_dropout=0.0,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="Shaw et al. (2018), section 4.1",
    ),
    # Pre-norm, dropout inside attention and feed-forward layers too, and a
    # target-space embedding.
    "t2t_transformer_base": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=512,
            intermediate_dim=2048,
            num_heads=8,
            position_encoding="sinusoidal",
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.1,
            attention_dropout=0.1,
            intermediate_dropout=0.1,
            share_embeddings="all",
            use_target_space_embedding=True,
        ),
        training=_TENSOR2TENSOR_TRAINING,
        source="tensor2tensor, transformer_base (its third version)",
    ),
    "t2t_transformer_relative": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=512,
            intermediate_dim=2048,
            num_heads=8,
            position_encoding="relative",
            max_relative_position=20,
            share_relations_across_heads=True,
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.1,
            attention_dropout=0.1,
            intermediate_dropout=0.1,
            share_embeddings="all",
            use_target_space_embedding=True,
        ),
        training=_TENSOR2TENSOR_TRAINING,
        source="tensor2tensor, transformer_relative",
    ),
    "t2t_transformer_big": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=1024,
            intermediate_dim=4096,
            num_heads=16,
            position_encoding="sinusoidal",
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.3,
            attention_dropout=0.1,
            intermediate_dropout=0.1,
            share_embeddings="all",
            use_target_space_embedding=True,
        ),
        training=_TENSOR2TENSOR_TRAINING,
        source="tensor2tensor, transformer_big",
    ),
    "t2t_transformer_relative_big": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=6,
            num_decoder_layers=6,
            hidden_dim=1024,
            intermediate_dim=4096,
            num_heads=16,
            position_encoding="relative",
            max_relative_position=20,
            share_relations_across_heads=True,
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.3,
            attention_dropout=0.1,
            intermediate_dropout=0.1,
            share_embeddings="all",
            use_target_space_embedding=True,
        ),
        training=_TENSOR2TENSOR_TRAINING,
        source="tensor2tensor, transformer_relative_big",
    ),
    # For one CPU: the sizes at which this package and OpenNMT-tf are compared.
    "transformer_small": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=3,
            num_decoder_layers=3,
            hidden_dim=256,
            intermediate_dim=1024,
            num_heads=4,
            position_encoding="sinusoidal",
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.1,
            attention_dropout=0.1,
            intermediate_dropout=0.1,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="this package",
    ),
    "transformer_small_relative": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=3,
            num_decoder_layers=3,
            hidden_dim=256,
            intermediate_dim=1024,
            num_heads=4,
            position_encoding="relative",
            max_relative_position=16,
            share_relations_across_heads=True,
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.1,
            attention_dropout=0.1,
            intermediate_dropout=0.1,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="this package",
    ),
    # "Transformer-tiny" for Multi30k. Pre-norm, which trains stably at a high
    # rate without tuning.
    "transformer_tiny": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=4,
            num_decoder_layers=4,
            hidden_dim=128,
            intermediate_dim=256,
            num_heads=4,
            position_encoding="sinusoidal",
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.3,
            attention_dropout=0.0,
            intermediate_dropout=0.0,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="Wu et al. (2021)",
    ),
    "transformer_tiny_relative": Preset(
        config=TransformerConfig(
            vocabulary_size=_NO_VOCABULARY,
            num_encoder_layers=4,
            num_decoder_layers=4,
            hidden_dim=128,
            intermediate_dim=256,
            num_heads=4,
            position_encoding="relative",
            max_relative_position=16,
            share_relations_across_heads=True,
            normalize_first=True,
            layer_norm_epsilon=1e-6,
            dropout=0.3,
            attention_dropout=0.0,
            intermediate_dropout=0.0,
            share_embeddings="all",
            use_target_space_embedding=False,
        ),
        training=_PAPER_TRAINING,
        source="Wu et al. (2021), with K = 16",
    ),
}
