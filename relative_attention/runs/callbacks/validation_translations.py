"""What a model that is still trained makes of a text."""

from relative_attention.errors import NotFiniteError


def validation_translations(translator, sources):
    """Translations; empty lines where the model gives no numbers.

    Training may get over such a model (`training.on_nonfinite`), and says so
    itself; a finished one is refused.

    Args:
        translator: `Translator`.
        sources: list of strings.

    Returns:
        List of strings.
    """
    try:
        return translator.translate(sources)
    except NotFiniteError:
        return [""] * len(sources)
