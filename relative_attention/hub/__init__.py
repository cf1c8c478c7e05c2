"""Translation models as tasks of KerasHub: strings in, strings out.

Importing this package registers its classes with Keras. From then on
`keras_hub.models.Seq2SeqLM.from_preset` and the like find them, too.
"""

import importlib.metadata

from relative_attention.errors import InputError

# Older ones are not tested, see setup.py. The package `keras-nlp` is KerasHub.
_OLDEST = "0.21.1"


def _check_keras_hub() -> None:
    """Raises `InputError` if KerasHub is missing or too old."""
    way_out = f"`pip install --upgrade 'keras-nlp>={_OLDEST}'` gets it."
    needed = f"`relative_attention.hub` needs KerasHub {_OLDEST} or newer"
    try:
        version = importlib.metadata.version("keras-hub")
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"{needed}, and none is installed: {way_out}") from (
            error
        )
    if _numbers(version) < _numbers(_OLDEST):
        raise InputError(f"{needed}. Received: {version}. {way_out}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:3] if part.isdecimal()]


# The modules below import KerasHub.
_check_keras_hub()

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
