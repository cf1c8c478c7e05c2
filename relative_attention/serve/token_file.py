"""Reads the token that requests must bring."""

import pathlib
import re

from relative_attention.errors import InputError

# Fewer could be guessed by asking.
_FEWEST_CHARACTERS = 16


def read_token(path: pathlib.Path | str) -> str:
    """Returns the token of a file.

    Args:
        path: path of a file of one line.

    Raises:
        InputError: if it cannot be read, or has anything but one word of
            ASCII, of 16 characters at least.
    """
    try:
        text = pathlib.Path(path).read_bytes().decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--token-file must be a file with a token. Received: {path} "
            f"({error})."
        ) from error
    # What a header can carry.
    if not re.fullmatch(rf"[!-~]{{{_FEWEST_CHARACTERS},}}", text):
        raise InputError(
            "--token-file must have one line, a token without blanks of at "
            f"least {_FEWEST_CHARACTERS} characters. Received: {path}. "
            "`openssl rand -hex 32 > FILE` makes one."
        )
    return text
