"""Translates chunks of lines as a command line asks for."""

import argparse
import functools
import itertools
import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translation
    from relative_attention.decoding import Translator

# Python, TensorFlow and JAX, and PyTorch call the error by these names.
_OUT_OF_MEMORY = ("MemoryError", "ResourceExhaustedError", "OutOfMemoryError")


class ChunkTranslation:
    """Makes the lines to write of lines to translate; a `TranslateChunk`.

    Args:
        translator: `Translator`.
        options: `argparse.Namespace`. The options of the command line.
        drawing: dict. Arguments of `Translator.sample`.

    Attributes:
        report: called after each batch with the number of lines done, or
            `None`.
    """

    def __init__(
        self,
        translator: "Translator",
        options: argparse.Namespace,
        drawing: dict[str, Any],
    ) -> None:
        self.report: Callable[[int], Any] | None = None
        self._translator = translator
        self._options = options
        self._drawing = drawing
        self._prefixes: Iterator[str] | None = None
        # Lines of the text before the first that is numbered 0 here.
        self._num_before = 0
        self._num_done = 0

    def begin(self, lines: range, rest: range) -> None:
        """Says which lines of the text there are to be.

        Args:
            lines: range of numbers of lines, from 0: all that are translated.
            rest: range, those of them that are still to come.
        """
        from relative_attention.data.lines import read_lines

        self._num_before = lines.start
        self._num_done = rest.start - lines.start
        if self._options.prefix is not None:
            stop = None if rest.stop == sys.maxsize else rest.stop
            self._prefixes = itertools.islice(
                read_lines(self._options.prefix), rest.start, stop
            )

    def __call__(self, num_done: int, chunk: list[str]) -> tuple[str, int]:
        """Translates lines, see `TranslateChunk`.

        Args:
            num_done: int. The lines that were translated before.
            chunk: list of strings.
        """
        arguments = dict(self._drawing)
        if self.report is not None:
            arguments["report"] = functools.partial(
                _report, self.report, num_done
            )
        if self._prefixes is not None:
            begun = list(itertools.islice(self._prefixes, len(chunk)))
            if len(begun) < len(chunk):
                raise unequal(
                    self._options, f"{num_done + len(begun):,}", "more"
                )
            arguments["target_prefixes"] = begun
        translations = self._search(chunk, arguments)
        self._num_done = num_done + len(chunk)
        text = "".join(
            _line(number, result, self._options.nbest)
            for number, results in enumerate(
                translations, start=self._num_before + num_done + 1
            )
            for result in results
        )
        return text, sum(results[0].was_cut for results in translations)

    def end(self) -> None:
        """Refuses prefixes that have no line."""
        if (
            self._prefixes is not None
            and next(self._prefixes, None) is not None
        ):
            raise unequal(self._options, "more", f"{self._num_done:,}")

    def _search(
        self, chunk: list[str], arguments: dict[str, Any]
    ) -> list[list["Translation"]]:
        """Returns the results of each line, found or drawn, best first."""
        options, translator = self._options, self._translator
        num_results = 1 if options.nbest is None else options.nbest
        decode = translator.sample if options.sample else translator.search
        try:
            return decode(chunk, num_results, **arguments)
        except ValueError as error:
            raise InputError(str(error)) from error
        except Exception as error:
            if type(error).__name__ not in _OUT_OF_MEMORY:
                raise
            raise InputError(
                "There is not enough memory for this batch. Lower "
                f"--batch-tokens, now {translator.batch_tokens}, or "
                f"--num-beams, now {translator.num_beams}."
            ) from error


def unequal(
    options: argparse.Namespace, num_prefixes: int | str, num_lines: int | str
) -> InputError:
    """Returns the error for a text of more lines, or fewer, than prefixes."""
    return InputError(
        "--prefix must have a line, if an empty one, for each line of the "
        f"text. Received: {options.prefix} with {num_prefixes} lines, for "
        f"{num_lines} of {options.input or 'standard input'}."
    )


def _report(report: Callable[[int], Any], before: int, done: int) -> None:
    """Reports lines of a chunk, counted on from those before it."""
    report(before + done)


def _line(number: int, translation: "Translation", nbest: int | None) -> str:
    """Returns a line of the output, with number and score if asked for N."""
    if not nbest:
        return f"{translation.text}\n"
    return f"{number}\t{translation.score:.6f}\t{translation.text}\n"
