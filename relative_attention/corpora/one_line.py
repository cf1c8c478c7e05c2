"""Sentences that may be lines of a file."""

import re

# What ends a line: for this package, and for Python, which counts the others
# too when it reads text.
_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


def one_line(text):
    """The text without line breaks; a blank stands in the place of each.

    Args:
        text: string.

    Returns:
        String without blanks at its ends; empty if there is nothing else.
    """
    return _BREAKS.sub(" ", text).strip()
