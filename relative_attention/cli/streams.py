"""Standard input, output and error, and the files that commands write."""

import os
import sys
import time
from collections.abc import Iterator
from collections.abc import Sequence
from typing import IO
from typing import TextIO

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.files import is_stream

# Seconds that a chunk waits for more lines after its first. A program that
# writes fast has filled it by then; one that waits for each answer should not
# wait long.
_PATIENCE = 0.1
# A log has one line of progress per minute.
_LOG_SECONDS = 60
# How many of the lines that were cut, or are long, are named.
NAMED_LINES = 5


def standard_input() -> TextIO:
    """Returns standard input; `InputError` if it is closed (`<&-`)."""
    if sys.stdin is None:
        raise InputError(
            "Standard input is closed. Give the text with `--input F`, or "
            "through a pipe."
        )
    return sys.stdin


def standard_output() -> TextIO:
    """Returns standard output; `InputError` if it is closed (`>&-`)."""
    if sys.stdout is None:
        raise InputError(
            "Standard output is closed. Name a file with `--output F`."
        )
    return sys.stdout


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
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise InputError(
                f"{path} cannot be written: {folder} is no folder."
            )
        places = [folder, place]
    for place in places:
        if os.path.exists(place) and not os.access(place, os.W_OK):
            raise InputError(
                f"{path} cannot be written: the permissions of {place} do not "
                "allow it. Change them, or give another name."
            )


# === Text from a terminal or a pipe ===


def stream_chunks() -> Iterator[list[str]]:
    """Yields lists of lines of standard input that came together."""
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

    It has the methods of a `ResumableFile`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.counts = {"lines": 0, "cut": 0, "long": 0}
        self.write = file.write
        self._file = file

    def keep(self, **counts: int) -> None:
        """Flushes the written lines to the reader."""
        self._file.flush()


# === Progress ===


class Progress:
    """Shows on standard error how many lines are done, and the time left.

    On a terminal each count replaces the last; elsewhere there is one line per
    minute, for the log of a job. Called with the number of lines done after
    `num_before`.

    Args:
        total: int. The number of lines; `None` if unknown.
        num_before: int. The lines done before this process.
    """

    def __init__(self, total: int | None, num_before: int = 0) -> None:
        from relative_attention.runs.translate_text import TranslationProgress

        self.num_before = num_before
        self._progress = TranslationProgress(total, num_before)
        self._last = time.monotonic()

    def __call__(self, num_done: int) -> None:
        line = self._progress.line(self.num_before + num_done)
        if sys.stderr.isatty():
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._last >= _LOG_SECONDS:
            self._last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line of the last count."""
        if sys.stderr.isatty():
            print(file=sys.stderr)


def report_cut(
    num_cut: int, numbers: Sequence[int], translator: "ra.Translator"
) -> None:
    """Reports sentences that were too long and were cut.

    Args:
        num_cut: int. How many lines were cut.
        numbers: list of ints. Their numbers, from 1, as far as known.
        translator: `Translator`.
    """
    were = "was" if num_cut == 1 else "were"
    _report_lines(
        num_cut,
        numbers,
        f"{were} cut at {translator.max_source_length} tokens "
        "(`decoding.max_source_length` of the recipe)",
    )


def report_long(
    num_long: int,
    numbers: Sequence[int],
    translator: "ra.Translator",
    is_split: bool,
) -> None:
    """Reports lines that are longer than the training text, with a way out.

    Args:
        num_long, numbers, translator: as for `report_cut`.
        is_split: bool. Whether the lines were split into sentences already.
    """
    are = "is" if num_long == 1 else "are"
    told = (
        f"{are} longer than nearly all of the training text "
        f"({translator.trained_source_length} tokens) and may be translated "
        "badly"
    )
    if not is_split:
        told += (
            ". Put each sentence on a line of its own, or add "
            "`--split-sentences`"
        )
    _report_lines(num_long, numbers, told)


def _report_lines(count: int, numbers: Sequence[int], told: str) -> None:
    """Reports lines, if there are any, and names the first of them."""
    if not count:
        return
    lines = "line" if count == 1 else "lines"
    which = ", ".join(f"{number:,}" for number in numbers[:NAMED_LINES])
    num_others = count - len(numbers[:NAMED_LINES])
    if which and num_others:
        which += f" and {num_others:,} more"
    print(
        f"{count:,} {lines} {told}" + (f": {lines} {which}" if which else ""),
        file=sys.stderr,
    )
