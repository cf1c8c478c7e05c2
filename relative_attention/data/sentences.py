"""Splits text into sentences, with `sentencex`."""

import re
from collections.abc import Callable

from relative_attention.errors import InputError
from relative_attention.errors import check_packages


def sentence_splitter(language: str) -> Callable[[str], list[str]]:
    """Returns a function that splits a line into its sentences.

    Sentences come without the blanks around them; a blank line has none.

    Args:
        language: string, the ISO 639 code of the text's language.

    Raises:
        InputError: if `language` is no such code, or `sentencex` is missing.

    Example:
    >>> sentence_splitter("en")("Dr. Lee has a cat. It sleeps.")
    ['Dr. Lee has a cat.', 'It sleeps.']
    """
    if not re.fullmatch("[a-z]{2,3}", language):
        raise InputError(
            "--split-sentences must be the code of the text's language, such "
            f"as en or de. Received: {language}."
        )
    need = "Splitting text into sentences needs `sentencex`"
    check_packages(need, "sentences", "sentencex")
    import sentencex

    def split(line: str) -> list[str]:
        sentences = map(str.strip, sentencex.segment(language, line))
        return list(filter(None, sentences))

    return split
