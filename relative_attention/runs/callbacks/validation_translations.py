"""Translations by a model that is still being trained."""

from collections.abc import Sequence

from relative_attention.decoding import Translator
from relative_attention.errors import NotFiniteError


def validation_translations(
    translator: Translator, sources: Sequence[str]
) -> list[str]:
    """Translates sentences; lines are empty where the model is not finite.

    Training may get over such a model (`training.on_nonfinite`), and says so
    itself. A finished model would be refused.

    Args:
        translator: A `Translator`.
        sources: A list of strings.

    Returns:
        A list of strings.
    """
    try:
        return translator.translate(sources)
    except NotFiniteError:
        return [""] * len(sources)
