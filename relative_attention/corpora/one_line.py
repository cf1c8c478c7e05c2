"""Makes any text a line of a file."""

import re

# The ends of lines, for this package (the first two) and for `str.splitlines`.
_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


def one_line(text: str) -> str:
    """Replaces line breaks by blanks, so that a text is one line.

    Args:
        text: string.

    Returns:
        String without blanks at its ends. It is empty if the text has nothing
        but line breaks and blanks.
    """
    return _BREAKS.sub(" ", text).strip()
