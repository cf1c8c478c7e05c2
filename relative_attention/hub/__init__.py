"""Translation models as tasks of KerasHub: strings in, strings out.

Importing this module registers its classes with Keras, and from then on
`keras_hub.models.Seq2SeqLM.from_preset` and the like find them, too.
"""

from relative_attention.hub.check_keras_hub import check_keras_hub

# All others import KerasHub.
check_keras_hub()

from relative_attention.hub.translation_backbone import TranslationBackbone
from relative_attention.hub.translation_lm import TranslationLM
from relative_attention.hub.translation_preprocessor import (
    TranslationPreprocessor,
)
from relative_attention.hub.translation_tokenizer import TranslationTokenizer

__all__ = [
    "TranslationBackbone",
    "TranslationLM",
    "TranslationPreprocessor",
    "TranslationTokenizer",
]
