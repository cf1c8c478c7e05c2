"""Standard input, output and error, and the files that commands write."""

import io
import os
import sys
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import IO
from typing import Any
from typing import cast

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.files import is_stream

# A log has one line of progress per minute.
_LOG_SECONDS = 60
# How many of the lines that were cut, or are long, are named.
NAMED_LINES = 5


def check_output(path: str | None, *others: str | None) -> None:
    """Refuses a path that cannot become a file, before hours of work.

    Devices and pipes are written to as they are; a link is followed.

    Args:
        path: string or `None`, nothing to check.
        *others: strings or `None`. Files that the command reads, or writes,
            too.
    """
    if path is None:
        return
    if not path:
        raise InputError("The name of an output is empty; give one.")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give the name of a file.")
    # What must be writable: the device; or an old file, and the folder in
    # which the new one is written before it takes the place of the old one.
    places = [path]
    if not is_stream(path):
        # A link stands for the file that it leads to.
        place = os.path.realpath(path)
        if place in [os.path.realpath(other) for other in others if other]:
            raise InputError(
                f"{path} is given twice: the output would replace it. Give "
                "another name."
            )
        if place.endswith(".gz"):
            raise InputError(
                f"{path} would be plain text, not compressed. Leave out .gz."
            )
        folder = os.path.dirname(place)
        # Folders that are missing are made in the nearest one that exists.
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise InputError(
                f"{path} cannot be written: {folder} is no folder."
            )
        places = [folder, place]
    # A file that is not there yet needs no permission of its own.
    for place in places:
        if os.path.exists(place) and not os.access(place, os.W_OK):
            raise InputError(
                f"{path} cannot be written: the permissions of {place} do not "
                "allow it. Change them, or give another name."
            )


# === Text from a terminal or a pipe ===


def stream_chunks() -> Iterator[list[str]]:
    """Yields lists of lines of standard input that came together."""
    from relative_attention.data.lines import arriving_lines

    # Bytes, so that an error can name the line that is not UTF-8.
    file = cast(io.BufferedReader, sys.stdin.buffer)
    return arriving_lines(file, "standard input")


def typed_chunks() -> Iterator[list[str]]:
    """Yields typed lines, one at a time, until Ctrl-D."""
    print("One line at a time; Ctrl-D ends.", file=sys.stderr)
    # `input` would write its prompt to standard output, among translations.
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


class StreamOutput:
    """A binary file to which translations are written as they come.

    It has the methods of `files.Parts`, and no part of an earlier process.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._notes: Mapping[str, Any] = {}

    def __contains__(self, number: int) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def add(
        self, number: int, content: bytes, notes: Mapping[str, Any]
    ) -> None:
        """Writes a part, which the reader gets at once."""
        self._file.write(content)
        # Another program may wait for this translation before it sends more.
        self._file.flush()
        # Only the last: all of a long text would fill the memory.
        self._notes = notes

    def notes(self, number: int) -> Mapping[str, Any]:
        """Returns the notes of the last part."""
        return self._notes


# === Progress ===


class Progress:
    """Shows on standard error how many lines are done, and the time left.

    On a terminal each count replaces the last; elsewhere there is one line per
    minute, for the log of a job. Called with the number of lines done after
    `num_before`.

    Args:
        total: int. The number of lines; `None` if unknown.
        num_before: int. The lines done before this process.
        is_shown: bool. Whether anything is shown.
    """

    def __init__(
        self, total: int | None, num_before: int = 0, is_shown: bool = True
    ) -> None:
        from relative_attention.data.lines import LineProgress

        self.num_before = num_before
        self.is_shown = is_shown
        self._progress = LineProgress(total, num_before)
        self._last = time.monotonic()

    def __call__(self, num_done: int) -> None:
        if not self.is_shown:
            return
        line = self._progress.line(self.num_before + num_done)
        if sys.stderr.isatty():
            # The code clears the end of a longer line before it.
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._last >= _LOG_SECONDS:
            self._last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line of the last count."""
        if self.is_shown and sys.stderr.isatty():
            print(file=sys.stderr)


# === Lines that are reported at the end ===


class NotedLines:
    """How many lines are reported, and the numbers of the first of them.

    The memory of a large job does not grow with its lines.
    """

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self.count = 0
        self._first: list[int] = []
        self.add(numbers)

    def add(self, numbers: Iterable[int]) -> None:
        """Adds numbers, from 1."""
        for number in numbers:
            self.count += 1
            # The rest is only counted.
            if len(self._first) < NAMED_LINES:
                self._first.append(number)

    def report(self, told: str) -> None:
        """Prints what was told of them, if there are any."""
        if not self.count:
            return
        lines = "line" if self.count == 1 else "lines"
        which = ", ".join(f"{number:,}" for number in self._first)
        if self.count > len(self._first):
            which += f" and {self.count - len(self._first):,} more"
        print(
            f"{self.count:,} {lines} {told}: {lines} {which}", file=sys.stderr
        )


def report_cut(lines: NotedLines, translator: "ra.Translator") -> None:
    """Reports lines that were too long and were cut."""
    were = "was" if lines.count == 1 else "were"
    lines.report(
        f"{were} cut at {translator.max_source_length} tokens "
        "(`decoding.max_source_length` of the recipe)"
    )


def report_long(
    lines: NotedLines, translator: "ra.Translator", is_split: bool
) -> None:
    """Reports lines that are longer than the training text, with a way out."""
    are = "is" if lines.count == 1 else "are"
    told = (
        f"{are} longer than nearly all of the training text "
        f"({translator.trained_source_length} tokens) and may be translated "
        "badly"
    )
    # Splitting is no way out where it is done already.
    if not is_split:
        told += (
            ". Put each sentence on a line of its own, or add "
            "`--split-sentences`"
        )
    lines.report(told)
