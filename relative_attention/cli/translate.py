"""Translates text: `relative-attention translate`."""

import argparse
import contextlib
import itertools
import os
import re
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translation
    from relative_attention.decoding import Translator
    from relative_attention.runs.translate_text import LineOutput

_DRAWING_OPTIONS = ("temperature", "top_k", "top_p", "seed")
# Options that decide what is written, beside those of the translator.
_WRITTEN = ("dtype", "shard", "nbest", "sample", *_DRAWING_OPTIONS)
# TensorFlow and JAX, and PyTorch call Python's `MemoryError` by these names.
_OUT_OF_MEMORY = ("MemoryError", "ResourceExhaustedError", "OutOfMemoryError")


def add_translate(subparsers: command.Subparsers) -> None:
    """Adds `translate` to the command line."""
    parser = command.add_command(
        subparsers,
        "translate",
        _translate,
        "translate a text line by line, or what is typed",
        "relative-attention translate runs/my_model < source > hypotheses",
    )
    command.add_models(parser)
    parser.text("--input F", "default: standard input")
    parser.text(
        "--output F",
        "has its name when all is translated; until then, with --input, "
        "the same command goes on where it was interrupted (default: standard "
        "output, as it comes)",
    )
    parser.flag(
        "--overwrite",
        "start --output again, whatever an interrupted command has left",
    )
    parser.text(
        "--shard I/N",
        "translate the I-th of N parts of --input alone, from 1/N to N/N; "
        "what all of them write, joined in order, is the whole",
    )
    parser.integer(
        "--nbest N",
        "write the N best translations of a line, each as line number, "
        "score and translation with tabs between",
    )
    parser.text(
        "--prefix F",
        "a text with a line for each line, which its translation begins "
        "with; an empty one leaves it free",
    )
    command.add_decoding_options(parser)
    command.add_dtype_option(parser)
    parser.integer(
        "--batch-tokens N",
        "most source positions, over all beams, translated at a time: "
        "fewer need less memory (default: the recipe's)",
    )
    parser.flag(
        "--sample", "draw translations at random instead of searching the best"
    )
    parser.number("--temperature T", "default: 1")
    parser.integer("--top-k K", "draw among the K likeliest")
    parser.number(
        "--top-p P", "draw among the likeliest whose probabilities reach P"
    )
    parser.integer("--seed N", "the same draws at each run")


def _translate(options: argparse.Namespace) -> None:
    """Runs the command."""
    streams.check_output(options.output)
    stream = None if options.output else streams.standard_output()
    is_typed = not options.input and streams.standard_input().isatty()
    _check_prefixes(options, is_typed)
    drawing = _drawing_arguments(options)
    lines = _lines(options)
    translator = command.load_models(options)
    if options.nbest is not None:
        command.check_nbest(
            options.nbest, None if options.sample else translator.num_beams
        )
    progress = None
    with _opened(options, translator) as output:
        num_before = output.counts["lines"]
        # A counter would stand among translations on the same terminal.
        if not is_typed and not (stream and stream.isatty()):
            total = len(lines) if lines.stop < sys.maxsize else None
            progress = streams.Progress(total, num_before)
        chunk_translation = _ChunkTranslation(
            translator, options, drawing, lines, num_before, progress
        )
        _translate_chunks(
            chunk_translation, lines[num_before:], output, options, is_typed
        )
        num_cut = output.counts["cut"]
    if progress is not None:
        progress.end()
    streams.report_cut(num_cut, chunk_translation.cut_lines, translator)


def _translate_chunks(
    translate_chunk: "_ChunkTranslation",
    lines: range,
    output: "LineOutput",
    options: argparse.Namespace,
    is_typed: bool,
) -> None:
    """Translates lines chunk by chunk."""
    from relative_attention.runs.translate_text import read_chunks
    from relative_attention.runs.translate_text import translate_chunks

    chunks: Iterable[list[str]]
    if options.input:
        chunks = read_chunks(options.input, lines)
    else:
        chunks = streams.typed_chunks() if is_typed else streams.stream_chunks()
    translate_chunks(chunks, translate_chunk, output)
    translate_chunk.end()


class _ChunkTranslation:
    """Makes the lines to write of lines to translate; a `TranslateChunk`.

    Args:
        translator: `Translator`.
        options: `argparse.Namespace`. The options of the command line.
        drawing: dict. Arguments of `Translator.sample`.
        lines: range of numbers of lines, from 0: all that are translated.
        num_before: int. How many of them an earlier process translated.
        report: called after each batch with the number of lines done, or
            `None`.

    Attributes:
        cut_lines: list of ints. The numbers, from 1, of the lines that were
            too long.
    """

    def __init__(
        self,
        translator: "Translator",
        options: argparse.Namespace,
        drawing: dict[str, Any],
        lines: range,
        num_before: int,
        report: Callable[[int], Any] | None,
    ) -> None:
        from relative_attention.data.lines import read_lines

        self.cut_lines: list[int] = []
        self._translator = translator
        self._options = options
        self._drawing = drawing
        self._first_line = lines.start + 1
        self._num_done = num_before
        self._report = report
        self._prefixes: Iterator[str] | None = None
        if options.prefix is not None:
            stop = None if lines.stop == sys.maxsize else lines.stop
            self._prefixes = itertools.islice(
                read_lines(options.prefix), lines.start + num_before, stop
            )

    def __call__(self, num_done: int, chunk: list[str]) -> tuple[str, int]:
        """Translates lines.

        Args:
            num_done: int. The lines that were translated before.
            chunk: list of strings.
        """
        arguments = dict(self._drawing)
        report = self._report
        if report is not None:
            arguments["report"] = lambda done: report(num_done + done)
        if self._prefixes is not None:
            begun = list(itertools.islice(self._prefixes, len(chunk)))
            if len(begun) < len(chunk):
                raise _unequal(
                    self._options, f"{num_done + len(begun):,}", "more"
                )
            arguments["target_prefixes"] = begun
        found = self._decode(chunk, arguments)
        self._num_done = num_done + len(chunk)
        numbered = list(enumerate(found, start=self._first_line + num_done))
        cut_lines = [number for number, best in numbered if best[0].was_cut]
        self.cut_lines += cut_lines
        text = "".join(
            _output_line(number, translation, self._options.nbest)
            for number, translations in numbered
            for translation in translations
        )
        return text, len(cut_lines)

    def end(self) -> None:
        """Refuses prefixes that have no line."""
        if (
            self._prefixes is not None
            and next(self._prefixes, None) is not None
        ):
            raise _unequal(self._options, "more", f"{self._num_done:,}")

    def _decode(
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


def _output_line(
    number: int, translation: "Translation", nbest: int | None
) -> str:
    if nbest is None:
        return f"{translation.text}\n"
    return f"{number}\t{translation.score:.6f}\t{translation.text}\n"


def _lines(options: argparse.Namespace) -> range:
    """Returns the numbers of the lines to translate, from 0.

    They are not counted in a stream, nor in a file that is read and written
    as it comes.
    """
    from relative_attention.data.lines import count_lines
    from relative_attention.runs.translate_text import shard_lines

    number, num_shards = _shard(options)
    is_file = options.input and not _is_stream(options.input)
    if is_file and (options.output or options.shard):
        return shard_lines(count_lines(options.input), number, num_shards)
    return range(sys.maxsize)


def _shard(options: argparse.Namespace) -> tuple[int, int]:
    """Returns which part of how many was asked for."""
    if options.shard is None:
        return 1, 1
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", options.shard, re.ASCII)
    number, num_shards = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= num_shards:
        raise InputError(
            "--shard must be I/N, from 1/N to N/N for N parts. Received: "
            f"{options.shard}."
        )
    if not options.input or _is_stream(options.input):
        raise InputError(
            "--shard counts the lines of a file: give it with `--input F`. "
            f"Received: {options.input or 'standard input'}."
        )
    return number, num_shards


def _is_stream(path: str) -> bool:
    """Returns whether a path is a pipe or a device, which is read once."""
    return os.path.exists(path) and not (
        os.path.isfile(path) or os.path.isdir(path)
    )


def _check_prefixes(options: argparse.Namespace, is_typed: bool) -> None:
    """Compares the prefixes with the text before any work, where it can."""
    from relative_attention.data.lines import count_lines

    if options.prefix is None:
        return
    if is_typed:
        raise InputError(
            "--prefix has a line for each line of a text. Give the text with "
            "`--input F`, or through a pipe."
        )
    files = (options.prefix, options.input)
    if all(path and os.path.isfile(path) for path in files):
        num_prefixes, num_lines = map(count_lines, files)
        if num_prefixes != num_lines:
            raise _unequal(options, num_prefixes, num_lines)


def _unequal(
    options: argparse.Namespace, num_prefixes: int | str, num_lines: int | str
) -> InputError:
    return InputError(
        "--prefix must have a line, if an empty one, for each line of the "
        f"text. Received: {options.prefix} with {num_prefixes} lines, for "
        f"{num_lines} of {options.input or 'standard input'}."
    )


def _drawing_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `Translator.sample` that were given."""
    given = {
        name: getattr(options, name)
        for name in _DRAWING_OPTIONS
        if getattr(options, name) is not None
    }
    if given and not options.sample:
        name = next(iter(given)).replace("_", "-")
        raise InputError(f"--{name} says how to draw; add --sample to draw.")
    return given


@contextlib.contextmanager
def _opened(
    options: argparse.Namespace, translator: "Translator"
) -> Iterator["LineOutput"]:
    """Opens the output: standard output, a file, or one that is resumed."""
    from relative_attention.files import atomic_file
    from relative_attention.files import is_stream
    from relative_attention.files import resumable_file
    from relative_attention.runs.translate_text import translation_origin

    if options.output is None:
        yield streams.StreamOutput(streams.standard_output().buffer)
        return
    texts = (options.input, options.prefix or options.input)
    # What comes through a pipe does not come again.
    if is_stream(options.output) or not all(
        path and os.path.isfile(path) for path in texts
    ):
        with atomic_file(options.output) as file:
            yield streams.StreamOutput(file)
        return
    origin = translation_origin(
        translator,
        options.models,
        {"--input": options.input, "--prefix": options.prefix},
        {
            f"--{name.replace('_', '-')}": getattr(options, name)
            for name in _WRITTEN
        },
    )
    counts = {"lines": 0, "cut": 0}
    with resumable_file(
        options.output, origin, counts, options.overwrite
    ) as resumable:
        if resumable.counts["lines"]:
            print(
                f"Going on after {resumable.counts['lines']:,} lines.",
                file=sys.stderr,
            )
        yield resumable
