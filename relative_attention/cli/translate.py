"""Translates text: `relative-attention translate`."""

import argparse
import contextlib
import functools
import itertools
import os
import sys
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import IO
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_models
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import check_nbest
from relative_attention.cli.decoding_options import translator_of
from relative_attention.cli.output_file import check_output
from relative_attention.cli.progress import report_cut
from relative_attention.cli.progress import show_progress
from relative_attention.cli.standard_streams import standard_input
from relative_attention.cli.standard_streams import standard_output
from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translation
    from relative_attention.decoding import Translator

# So many lines are translated before any is written: enough to sort by length.
_CHUNK_LINES = 2000
# A chunk waits so many seconds after its first line for more. A program that
# writes fast has filled it by then; one that waits for the answer of each line
# should not wait for long.
_PATIENCE = 0.1
# Python, TensorFlow and JAX, and PyTorch call the error by these names.
_OUT_OF_MEMORY = ("MemoryError", "ResourceExhaustedError", "OutOfMemoryError")


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "translate",
        _run,
        "translate a text line by line, or what is typed",
        "relative-attention translate runs/my_model < source > hypotheses",
    )
    add_models(parser)
    parser.add_argument("--input", metavar="F", help="default: standard input")
    parser.add_argument(
        "--output",
        metavar="F",
        help="written when all is translated (default: standard output, as "
        "it comes)",
    )
    parser.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="write the N best translations of a line, each as line number, "
        "score and translation with tabs between",
    )
    parser.add_argument(
        "--prefix",
        metavar="F",
        help="what the translation of each line begins with, a text of as "
        "many lines; an empty one leaves its translation free",
    )
    add_decoding_options(parser)
    parser.add_argument(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="most source positions, over all beams, translated at a time: "
        "fewer need less memory (default: the recipe's)",
    )
    _add_sampling_options(parser)


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how to draw translations."""
    parser.add_argument(
        "--sample",
        action="store_true",
        help="draw translations at random instead of searching the best",
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="default: 1"
    )
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="draw among the K likeliest"
    )
    parser.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="draw among the likeliest whose probabilities reach P",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="the same draws at each run"
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    check_output(options.output)
    output = None if options.output else standard_output()
    is_typed = not options.input and standard_input().isatty()
    prefixes = _prefixes(options, is_typed)
    drawing = _sampling_arguments(options)
    translator = translator_of(options, more_names=("batch_tokens",))
    if options.nbest is not None:
        check_nbest(
            options.nbest, None if options.sample else translator.num_beams
        )
    # A counter would stand among translations on the same terminal.
    has_progress = not is_typed and not (output and output.isatty())
    with _opened(options.output) as file:
        num_cut = _translate(
            translator,
            _chunks(options.input, is_typed),
            prefixes,
            file,
            options,
            drawing,
            show_progress if has_progress else None,
        )
    report_cut(num_cut, translator, after_progress=has_progress)


def _chunks(path: str | None, is_typed: bool) -> Iterator[list[str]]:
    """Yields lists of lines that are translated together."""
    from relative_attention.data.arriving_lines import ArrivingLines
    from relative_attention.data.lines import decode_lines
    from relative_attention.data.lines import read_lines
    from relative_attention.data.parallel_corpus import batched

    if is_typed:
        yield from batched(_typed_lines(), 1)
        return
    if path:
        yield from batched(read_lines(path), _CHUNK_LINES)
        return
    arriving = ArrivingLines(standard_input().buffer)
    lines = decode_lines(arriving, "standard input")
    for line in lines:
        chunk = [line]
        end = time.monotonic() + _PATIENCE
        while len(chunk) < _CHUNK_LINES and arriving.is_ready(
            max(end - time.monotonic(), 0)
        ):
            more = next(lines, None)
            if more is None:
                break
            chunk.append(more)
        yield chunk


def _prefixes(
    options: argparse.Namespace, is_typed: bool
) -> Iterator[str] | None:
    """Returns an iterator of the translations' prefixes, or `None`."""
    from relative_attention.data.lines import count_lines
    from relative_attention.data.lines import read_lines

    if options.prefix is None:
        return None
    if is_typed:
        raise InputError(
            "--prefix has a line for each line of a text. Give the text with "
            "`--input F`, or through a pipe."
        )
    # What can be read twice is held against one another before any work.
    files = (options.prefix, options.input)
    if all(path and os.path.isfile(path) for path in files):
        num_prefixes, num_lines = map(count_lines, files)
        if num_prefixes != num_lines:
            raise _unequal(options, num_prefixes, num_lines)
    return read_lines(options.prefix)


def _unequal(
    options: argparse.Namespace, num_prefixes: int | str, num_lines: int | str
) -> InputError:
    """Returns the error for a text of more lines, or fewer, than prefixes."""
    return InputError(
        "--prefix must have a line, if an empty one, for each line of the "
        f"text. Received: {options.prefix} with {num_prefixes} lines, for "
        f"{num_lines} of {options.input or 'standard input'}."
    )


def _translate(
    translator: "Translator",
    chunks: Iterable[list[str]],
    prefixes: Iterator[str] | None,
    file: IO[bytes],
    options: argparse.Namespace,
    drawing: dict[str, Any],
    report: Callable[[int], Any] | None,
) -> int:
    """Writes the translations, and returns how many lines were cut."""
    num_done = num_cut = 0
    for chunk in chunks:
        arguments = dict(drawing)
        if report is not None:
            arguments["report"] = functools.partial(_report, report, num_done)
        if prefixes is not None:
            begun = list(itertools.islice(prefixes, len(chunk)))
            if len(begun) < len(chunk):
                raise _unequal(options, f"{num_done + len(begun):,}", "more")
            arguments["target_prefixes"] = begun
        translations = _search(translator, chunk, options, arguments)
        for number, results in enumerate(translations, start=num_done + 1):
            for result in results:
                file.write(_line(number, result, options.nbest).encode())
        file.flush()
        num_done += len(chunk)
        num_cut += sum(results[0].was_cut for results in translations)
    if prefixes is not None and next(prefixes, None) is not None:
        raise _unequal(options, "more", f"{num_done:,}")
    return num_cut


def _report(report: Callable[[int], Any], before: int, done: int) -> None:
    """Reports lines of a chunk, counted on from those before it."""
    report(before + done)


def _sampling_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what was asked for of how to draw."""
    given = {
        name: getattr(options, name)
        for name in ("temperature", "top_k", "top_p", "seed")
        if getattr(options, name) is not None
    }
    if given and not options.sample:
        name = next(iter(given)).replace("_", "-")
        raise InputError(f"--{name} says how to draw; add --sample to draw.")
    return given


def _search(
    translator: "Translator",
    chunk: list[str],
    options: argparse.Namespace,
    arguments: dict[str, Any],
) -> list[list["Translation"]]:
    """Returns the results of each line, found or drawn, best first."""
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
            "There is not enough memory for this batch. Lower --batch-tokens, "
            f"now {translator.batch_tokens}, or --num-beams, now "
            f"{translator.num_beams}."
        ) from error


def _line(number: int, translation: "Translation", nbest: int | None) -> str:
    """Returns a line of the output, with number and score if asked for N."""
    if not nbest:
        return f"{translation.text}\n"
    return f"{number}\t{translation.score:.6f}\t{translation.text}\n"


def _typed_lines() -> Iterator[str]:
    """Yields what is typed, line by line, until Ctrl-D."""
    print("One line at a time; Ctrl-D ends.", file=sys.stderr)
    # Where only translations are to go, `input` would write its prompt too.
    prompt = "> " if sys.stdout.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise InputError(
                f"What was typed is not UTF-8: {error}."
            ) from error


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[IO[bytes]]:
    """Opens the output, a file or standard output, for bytes."""
    from relative_attention.atomic_files import atomic_file

    if path is None:
        yield standard_output().buffer
    else:
        with atomic_file(path) as file:
            yield file
