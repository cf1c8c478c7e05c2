"""Translates a text of any length, and goes on where it was interrupted."""

import itertools
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Protocol

from relative_attention.data.lines import batched
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.decoding import Translation
from relative_attention.decoding import Translator
from relative_attention.files import resumable_file
from relative_attention.runs.closest_translations import ClosestTo
from relative_attention.runs.closest_translations import closest_translations
from relative_attention.runs.report import Report
from relative_attention.runs.translation_progress import TranslationProgress

# So many lines are translated before any is written: enough to sort by length.
# They are in memory, and lost at most.
CHUNK_LINES = 2000

# Called with the number of lines before a chunk and its lines; returns the
# lines to write, and how many sentences were too long to be translated whole.
TranslateChunk = Callable[[int, list[str]], tuple[str, int]]


class LineOutput(Protocol):
    """What `translate_chunks` writes to: a `ResumableFile`, or a stream.

    Attributes:
        counts: dict of ints. `lines`, those translated so far, and `cut`, of
            these the ones that were too long.
    """

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts as of the last `keep`."""

    def write(self, data: bytes) -> None:
        """Writes bytes."""

    def keep(self, **counts: int) -> None:
        """Lets nothing that was written be lost, as far as it can."""


def translate_text(
    translator: Translator,
    source: pathlib.Path | str,
    path: pathlib.Path,
    origin: Mapping[str, Any],
    report: Report,
    closest_to: ClosestTo | None = None,
) -> None:
    """Translates a text into a file, unless that is there already.

    A process that was killed is gone on with, but for the chunk it was at.

    Args:
        translator: A `Translator`.
        source: The path of the text.
        path: The path of the file; what is there must be of the same
            translator and text.
        origin: A dict of what the translations depend on, see
            `resumable_file`.
        report: A function that is called with a line for the log after each
            chunk.
        closest_to: A `ClosestTo`. Defaults to `None`: the best translations.

    Raises:
        InputError: if the text is unusable, or the model's logits are not
            finite, or as `resumable_file`.
    """
    if path.is_file():
        return
    lines = shard_lines(count_lines(source), 1, 1)
    with resumable_file(path, origin, {"lines": 0, "cut": 0}) as output:
        num_before = output.counts["lines"]
        progress = TranslationProgress(len(lines), num_before)
        search = _searching(translator, closest_to, lines[num_before:])

        def translate(num_done: int, chunk: list[str]) -> tuple[str, int]:
            if num_done > num_before:
                report(f"translated {progress.line(num_done)}")
            found = search(chunk)
            text = "".join(f"{result.text}\n" for result in found)
            return text, sum(result.was_cut for result in found)

        translate_chunks(
            read_chunks(source, lines[num_before:]), translate, output
        )
        report(f"translated {progress.line(output.counts['lines'])}")


def _searching(
    translator: Translator, closest_to: ClosestTo | None, lines: range
) -> Callable[[list[str]], list[Translation]]:
    """Returns what translates the next chunk of some lines."""
    if closest_to is None:
        return translator.search
    references = read_chunks(closest_to.references, lines)
    return lambda chunk: closest_translations(
        translator.search(chunk, num_results=closest_to.num_candidates),
        next(references),
        closest_to.tokenize,
    )


def translate_chunks(
    chunks: Iterable[list[str]], translate: TranslateChunk, output: LineOutput
) -> None:
    """Translates chunks of lines one after another.

    Args:
        chunks: iterable of lists of lines, the first after those that
            `output` counts.
        translate: see `TranslateChunk`.
        output: see `LineOutput`.
    """
    for chunk in chunks:
        num_lines, num_cut = output.counts["lines"], output.counts["cut"]
        text, num_cut_now = translate(num_lines, chunk)
        output.write(text.encode())
        output.keep(lines=num_lines + len(chunk), cut=num_cut + num_cut_now)


def read_chunks(path: pathlib.Path | str, lines: range) -> Iterator[list[str]]:
    """Yields some lines of a text in the chunks that they are translated in.

    Args:
        path: path of the text.
        lines: range of numbers of lines, from 0.

    Raises:
        InputError: if the text is unusable.
    """
    some = itertools.islice(read_lines(path), lines.start, lines.stop)
    yield from batched(some, CHUNK_LINES)


def shard_lines(num_lines: int, number: int, num_shards: int) -> range:
    """Returns the lines of one of several parts of a text.

    Parts follow one another, and begin where a chunk does: what a line is
    translated with is then the same as without parts, and so is its
    translation to the last digit of its score.

    Args:
        num_lines: int. Of the text.
        number: int, from 1. Which part.
        num_shards: int. How many parts there are.

    Returns:
        Range of numbers of lines, from 0; it may be empty.
    """
    num_chunks = -(-num_lines // CHUNK_LINES)
    first, end = (
        min(num_chunks * n // num_shards * CHUNK_LINES, num_lines)
        for n in (number - 1, number)
    )
    return range(first, end)
