"""Lines that are typed or piped in, and where translations of them go."""

import sys
import time
from collections.abc import Iterator
from typing import IO

from relative_attention.cli.standard_streams import standard_input
from relative_attention.errors import InputError

# A chunk waits so many seconds after its first line for more. A program that
# writes fast has filled it by then; one that waits for the answer of each line
# should not wait for long.
_PATIENCE = 0.1


class StreamOutput:
    """A binary file that is written as translations come.

    Args:
        file: binary file.

    Attributes:
        counts: dict of ints, see `LineOutput`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.counts = {"lines": 0, "cut": 0}
        self._file = file

    def write(self, data: bytes) -> None:
        """Writes bytes."""
        self._file.write(data)

    def keep(self, **counts: int) -> None:
        """Sends what is written to whoever reads it."""
        self._file.flush()
        self.counts = counts


def stream_chunks() -> Iterator[list[str]]:
    """Yields lists of those lines of standard input that came together."""
    from relative_attention.data.lines import ArrivingLines
    from relative_attention.data.lines import decode_lines
    from relative_attention.runs import translate_text

    arriving = ArrivingLines(standard_input().buffer)
    lines = decode_lines(arriving, "standard input")
    for line in lines:
        chunk = [line]
        end = time.monotonic() + _PATIENCE
        while len(chunk) < translate_text.CHUNK_LINES and arriving.is_ready(
            max(end - time.monotonic(), 0)
        ):
            more = next(lines, None)
            if more is None:
                break
            chunk.append(more)
        yield chunk


def typed_chunks() -> Iterator[list[str]]:
    """Yields what is typed, each line alone, until Ctrl-D."""
    print("One line at a time; Ctrl-D ends.", file=sys.stderr)
    # Where only translations are to go, `input` would write its prompt too.
    prompt = "> " if sys.stdout.isatty() else ""
    while True:
        try:
            yield [input(prompt)]
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise InputError(
                f"What was typed is not UTF-8: {error}."
            ) from error
