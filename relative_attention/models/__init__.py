"""The Transformer and its presets.

The names of presets are available without Keras; models are imported on first
use.
"""

from typing import TYPE_CHECKING

from relative_attention.lazy_names import lazy_names
from relative_attention.models.config import TransformerConfig
from relative_attention.models.config import training_flops
from relative_attention.models.presets import preset_config
from relative_attention.models.presets import preset_training
from relative_attention.models.presets import presets

__all__ = [
    "Transformer",
    "TransformerConfig",
    "preset_config",
    "preset_training",
    "presets",
    "training_flops",
]

_MODULES = {"Transformer": "transformer"}

if TYPE_CHECKING:
    # What type checkers see of the names that `__getattr__` imports.
    from relative_attention.models.transformer import Transformer as Transformer
else:
    __getattr__ = lazy_names(__name__, _MODULES)
