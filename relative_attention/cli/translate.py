"""Translates text: `relative-attention translate`."""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.cli.chunk_translation import ChunkTranslation
from relative_attention.cli.chunk_translation import unequal
from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_models
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import add_dtype_option
from relative_attention.cli.decoding_options import check_nbest
from relative_attention.cli.decoding_options import translator_of
from relative_attention.cli.output_file import check_output
from relative_attention.cli.progress import TimeLeft
from relative_attention.cli.progress import report_cut
from relative_attention.cli.progress import show_progress
from relative_attention.cli.standard_streams import standard_input
from relative_attention.cli.standard_streams import standard_output
from relative_attention.cli.stream_chunks import StreamOutput
from relative_attention.cli.stream_chunks import stream_chunks
from relative_attention.cli.stream_chunks import typed_chunks
from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translator
    from relative_attention.runs.translate_text import LineOutput

# What of the options decides over what is written, beside the translator.
_WRITTEN = (
    *("dtype", "shard", "nbest"),
    *("sample", "temperature", "top_k", "top_p", "seed"),
)


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
        help="has its name when all is translated; until then, with --input, "
        "the same command goes on where it was interrupted (default: standard "
        "output, as it comes)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="begin --output anew, whatever an interrupted command has left",
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="translate the I-th of N parts of --input alone, from 1/N to N/N; "
        "what all of them write, joined in order, is the whole",
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
    add_dtype_option(parser)
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
    stream = None if options.output else standard_output()
    is_typed = not options.input and standard_input().isatty()
    _check_prefixes(options, is_typed)
    drawing = _sampling_arguments(options)
    lines = _lines(options)
    translator = translator_of(options, more_names=("batch_tokens", "dtype"))
    if options.nbest is not None:
        check_nbest(
            options.nbest, None if options.sample else translator.num_beams
        )
    # A counter would stand among translations on the same terminal.
    has_progress = not is_typed and not (stream and stream.isatty())
    with _opened(options, translator) as output:
        translation = ChunkTranslation(translator, options, drawing)
        if has_progress:
            translation.report = show_progress
            if lines.stop < sys.maxsize:
                before = output.counts["lines"]
                translation.report = TimeLeft(len(lines), before)
        _translate(translation, lines, output, options, is_typed)
        num_cut = output.counts["cut"]
    report_cut(num_cut, translator, after_progress=has_progress)


def _translate(
    translation: ChunkTranslation,
    lines: range,
    output: "LineOutput",
    options: argparse.Namespace,
    is_typed: bool,
) -> None:
    """Translates what `output` does not have yet of some lines."""
    from relative_attention.runs.translate_text import read_chunks
    from relative_attention.runs.translate_text import translate_chunks

    rest = lines[output.counts["lines"] :]
    translation.begin(lines, rest)
    chunks: Iterable[list[str]]
    if options.input:
        chunks = read_chunks(options.input, rest)
    else:
        chunks = typed_chunks() if is_typed else stream_chunks()
    translate_chunks(chunks, translation, output)
    translation.end()


def _lines(options: argparse.Namespace) -> range:
    """Returns the numbers of the lines to translate, from 0.

    Those of a stream, and of what is read and written as it comes, are not
    counted before.
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
    """Returns whether a path is that of a pipe or device, read but once."""
    return (
        os.path.exists(path)
        and not os.path.isfile(path)
        and not os.path.isdir(path)
    )


def _check_prefixes(options: argparse.Namespace, is_typed: bool) -> None:
    """Holds a file of prefixes against the text before any work."""
    from relative_attention.data.lines import count_lines

    if options.prefix is None:
        return
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
            raise unequal(options, num_prefixes, num_lines)


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


@contextlib.contextmanager
def _opened(
    options: argparse.Namespace, translator: "Translator"
) -> Iterator["LineOutput"]:
    """Opens the output: standard output, a file, or one that goes on."""
    from relative_attention.files import atomic_file
    from relative_attention.files import is_stream
    from relative_attention.files import resumable_file
    from relative_attention.runs.translation_origin import translation_origin

    if options.output is None:
        yield StreamOutput(standard_output().buffer)
        return
    texts = (options.input, options.prefix or options.input)
    # What comes through a pipe does not come again.
    if is_stream(options.output) or not all(
        path and os.path.isfile(path) for path in texts
    ):
        with atomic_file(options.output) as file:
            yield StreamOutput(file)
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
