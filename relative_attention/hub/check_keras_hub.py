"""Looks at KerasHub before anything of it is imported."""

import importlib.metadata

from relative_attention.errors import InputError

# Older ones are not tried, see setup.py. The package `keras-nlp` is KerasHub.
_OLDEST = "0.21.1"


def check_keras_hub() -> None:
    """Raises `InputError` if KerasHub is missing or too old."""
    way_out = f"`pip install --upgrade 'keras-nlp>={_OLDEST}'` gets it."
    try:
        version = importlib.metadata.version("keras-hub")
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(
            f"`relative_attention.hub` needs KerasHub {_OLDEST} or newer, and "
            f"none is installed: {way_out}"
        ) from error
    if _numbers(version) < _numbers(_OLDEST):
        raise InputError(
            f"`relative_attention.hub` needs KerasHub {_OLDEST} or newer. "
            f"Received: {version}. {way_out}"
        )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:3] if part.isdecimal()]
