"""Translation models as tasks of KerasHub: strings in, strings out.

Importing this package registers its classes with Keras, so that
`keras_hub.models.Seq2SeqLM.from_preset` and the like find them, too.

presets.py        bundled and trained models as presets; uploads
backbone.py       the `Transformer` as a backbone; adapters and int8
preprocessing.py  strings to ids and back
task.py           the task: fit on strings, generate strings
"""

from relative_attention.hub.backbone import TranslationBackbone
from relative_attention.hub.preprocessing import TranslationPreprocessor
from relative_attention.hub.preprocessing import TranslationTokenizer
from relative_attention.hub.task import TranslationLM

__all__ = [
    "TranslationBackbone",
    "TranslationLM",
    "TranslationPreprocessor",
    "TranslationTokenizer",
]
