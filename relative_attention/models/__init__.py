"""The Transformer and its presets."""

from relative_attention.models.presets import preset_config
from relative_attention.models.presets import preset_training
from relative_attention.models.presets import presets
from relative_attention.models.trainable_model import TrainableModel
from relative_attention.models.training_flops import training_flops
from relative_attention.models.transformer import Transformer
from relative_attention.models.transformer_config import TransformerConfig

__all__ = [
    "TrainableModel",
    "Transformer",
    "TransformerConfig",
    "preset_config",
    "preset_training",
    "presets",
    "training_flops",
]
