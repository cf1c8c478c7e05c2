"""Translates text: `relative-attention translate`.

_translate
  _check               all that is wrong, before anything is loaded
  command.load_models  `ra.load_translator` with the options, `--engine` as
                       `engine` (`saving/model_directory.py`)
  _chunks              some lines of the text at a time
  _decode              their results (`decoding/translator.py`)
  _written             the lines of the output
"""

import argparse
import collections
import contextlib
import functools
import itertools
import os
import re
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NamedTuple

import relative_attention as ra
from relative_attention import files
from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError

_DRAWING_OPTIONS = ("temperature", "top_k", "top_p", "seed")
_SEARCH_OPTIONS = (
    "num_beams",
    "length_penalty",
    "no_repeat_ngram",
    "engine",
)
# Options that affect the output, besides those of the translator.
_WRITTEN = (
    "engine",
    "dtype",
    "checkpoint",
    "shard",
    "nbest",
    "split_sentences",
    "alignments",
    "sample",
    *_DRAWING_OPTIONS,
)


def add_translate(subparsers: command.Subparsers) -> None:
    """Adds `translate` to the command line."""
    parser = command.add_command(
        subparsers,
        "translate",
        _translate,
        "translate a text line by line, or what you type",
        "relative-attention translate runs/my_model < source > hypotheses",
    )
    command.add_models(parser)
    parser.text("--input FILE", "default: standard input")
    parser.text(
        "--output FILE",
        "output file, there when complete; with --input, rerun the same "
        "command to resume (default: standard output, as it comes)",
    )
    parser.flag("--overwrite", "start --output again instead of resuming it")
    parser.text(
        "--shard I/N",
        "translate only the I-th of N parts of --input, from 1/N to N/N; "
        "concatenate the outputs in order",
    )
    parser.integer(
        "--nbest N",
        "write the N best translations of each line (with --sample N draws), "
        "as line number, score and translation, separated by tabs",
    )
    parser.text(
        "--prefix FILE",
        "a text with the beginning of each translation, line by line; an "
        "empty line leaves it free",
    )
    parser.switch(
        "--split-sentences",
        "translate the sentences of a line one by one, and join the "
        "translations (default: where the model's folder has the language of "
        "the source, without --nbest, --prefix, --alignments and --sample)",
    )
    command.add_terms(parser)
    parser.flag(
        "--alignments",
        "add, after a tab, which source word each word comes from, as "
        "Pharaoh's `0-0 1-2`: numbers from 0 of words between blanks, by "
        "attention",
    )
    command.add_decoding_options(parser)
    command.add_engine_options(parser)
    parser.integer(
        "--batch-tokens N",
        "most source tokens, over all beams, translated at a time; fewer "
        "need less memory (default: 8192)",
    )
    parser.flag(
        "--sample", "draw translations at random instead of a beam search"
    )
    parser.number("--temperature T", "default: 1")
    parser.integer("--top-k K", "draw from the K most likely tokens")
    parser.number("--top-p P", "draw from the most likely tokens that sum to P")
    parser.integer("--seed N", "for the same draws in every run")


class _Chunk(NamedTuple):
    """Lines that are translated together."""

    # The number of the first one, from 1.
    first: int
    lines: list[str]
    # The beginning of each translation, if the user gave them.
    prefixes: list[str] | None


def _translate(options: argparse.Namespace) -> None:
    line_numbers = _check(options)
    command.read_terms(options)
    translator = command.load_models(
        options, names=(*command.LOADING_OPTIONS, *command.TERMS)
    )
    # The number of samples does not depend on the number of beams.
    num_beams = None if options.sample else translator.num_beams
    command.check_nbest(options.nbest, num_beams)
    # Only the model knows its language, so this check comes after loading.
    options.split_sentences, is_unknown = _splitting(options, translator)
    noted = {name: streams.NotedLines() for name in ("cut", "long", "unsplit")}
    with _opened(options, translator) as output:
        progress = _progress(options, line_numbers, output)
        for number, chunk in enumerate(_chunks(options, line_numbers)):
            # An earlier process may have made this part.
            if number not in output:
                # The search counts from the start of its chunk.
                progress.num_before = chunk.first - 1 - line_numbers.start
                found = _decode(translator, options, chunk, progress)
                notes = _notes(chunk, found, translator, is_unknown)
                output.add(number, _written(options, chunk, found), notes)
            # This includes notes on parts that an earlier process made.
            for name, numbers in output.notes(number).items():
                noted[name].add(numbers)
    # The lines below must not follow a count on its line.
    progress.end()
    streams.report_cut(noted["cut"], translator)
    streams.report_long(noted["long"], translator, options.split_sentences)
    if noted["unsplit"].count:
        print(
            "Lines with several sentences were not split, as the language of "
            "the source is unknown: set `decoding.source_language` in the "
            "config.json of the model's folder, or add --no-split-sentences",
            file=sys.stderr,
        )


@command.input_errors()
def _decode(
    translator: "ra.Translator",
    options: argparse.Namespace,
    chunk: _Chunk,
    progress: streams.Progress,
) -> "list[list[ra.Translation]]":
    """Returns the results of each line, best first."""
    # `_check` has refused these for a search.
    arguments = command.given(options, _DRAWING_OPTIONS)
    if options.alignments:
        arguments["return_alignment"] = True
    if not _skips_rules(options):
        return translator.translate_lines(
            chunk.lines,
            options.nbest,
            split_sentences=options.split_sentences,
            report=progress,
        )
    decode = translator.sample if options.sample else translator.search
    return decode(
        chunk.lines,
        # One result is a list of one, too, so all are written the same way.
        1 if options.nbest is None else options.nbest,
        target_prefixes=chunk.prefixes,
        report=progress,
        **arguments,
    )


def _notes(
    chunk: _Chunk,
    found: "list[list[ra.Translation]]",
    translator: "ra.Translator",
    is_unknown: bool,
) -> dict[str, list[int]]:
    """Returns the numbers of lines to report at the end, and why."""
    from relative_attention.text.sentences import seems_to_have_sentences

    # Unknown for a model of elsewhere.
    trained_length = translator.trained_source_length or sys.maxsize
    notes: dict[str, list[int]] = collections.defaultdict(list)
    for number, (best, *_) in enumerate(found, chunk.first):
        sentences = best.sentences or [best]
        # A line that was cut is long as well, and is reported once.
        if best.was_cut:
            notes["cut"].append(number)
        elif max(len(s.source_token_ids) for s in sentences) > trained_length:
            notes["long"].append(number)
    if is_unknown and any(map(seems_to_have_sentences, chunk.lines)):
        # Which lines they are is not told, so one number per chunk is enough.
        notes["unsplit"].append(chunk.first)
    return notes


def _written(
    options: argparse.Namespace,
    chunk: _Chunk,
    found: "list[list[ra.Translation]]",
) -> bytes:
    """Returns the output for some lines, from their results."""

    def row(one: "ra.Translation", *columns: str) -> str:
        columns = (*columns, one.text)
        if options.alignments:
            pairs = one.alignment or ()
            columns = (*columns, " ".join(f"{i}-{j}" for i, j in pairs))
        return "\t".join(columns) + "\n"

    if options.nbest is None:
        rows = (row(best) for best, *_ in found)
    else:
        rows = (
            row(one, str(number), f"{one.score:.6f}")
            for number, results in enumerate(found, chunk.first)
            for one in results
        )
    return "".join(rows).encode()


# === What is refused before any work ===


def _check(options: argparse.Namespace) -> range:
    """Returns the numbers of the lines to translate, from 0.

    For a stream, and for a file that is translated as it is read, the end is
    unknown: it is `sys.maxsize`.
    """
    from relative_attention.data.lines import read_lines

    # The output may replace the input, which is read before that.
    streams.check_output(options.output, options.prefix, options.glossary)
    # The cheapest checks come first; files are read last.
    _check_rules(options)
    _check_prefixes(options)
    drawing = command.given(options, _DRAWING_OPTIONS)
    if drawing and not options.sample:
        name = command.spelled(next(iter(drawing)))
        raise InputError(f"{name} says how to draw; add --sample to draw.")
    if options.sample:
        for name in command.given(options, _SEARCH_OPTIONS):
            raise InputError(
                f"{command.spelled(name)} is for a search; leave it out to "
                "draw with --sample."
            )
    _check_alignments(options)
    for path in (options.input, options.prefix):
        if path and not files.is_stream(path):
            # `InputError` if it cannot be read.
            next(read_lines(path), None)
    return _lines(options)


def _check_alignments(options: argparse.Namespace) -> None:
    """Refuses what has no alignment, before any work."""
    if not options.alignments:
        return
    if options.split_sentences:
        raise InputError(
            "--split-sentences and --alignments exclude one another: words "
            "are counted by the line. Put each sentence on a line of its own."
        )
    # An engine returns no attention, and several models have several.
    if options.engine or len(options.models) > 1:
        raise InputError(
            "--alignments needs the attention of one model: leave out "
            f"{'--engine' if options.engine else 'all models but one'}."
        )


def _skips_rules(options: argparse.Namespace) -> bool:
    """Returns whether lines are searched as they are: no rule applies."""
    return bool(options.sample or options.alignments or options.prefix)


def _check_rules(options: argparse.Namespace) -> None:
    """Refuses rules of text where lines are translated as they are."""
    for name in ("nbest", "prefix", "sample"):
        if options.split_sentences and getattr(options, name):
            raise InputError(
                f"--split-sentences and --{name} exclude one another. Leave "
                "one out, or put each sentence on a line of its own."
            )
    for name in ("keep", "glossary"):
        if getattr(options, name) and _skips_rules(options):
            raise InputError(
                f"--{name} is for lines that are prepared: leave out --sample, "
                "--alignments and --prefix, or it."
            )


def _lines(options: argparse.Namespace) -> range:
    from relative_attention.data.lines import count_lines
    from relative_attention.saving.translate_text import shard_lines

    number, num_shards = 1, 1
    is_file = options.input and not files.is_stream(options.input)
    if options.shard is not None:
        # Without `ASCII` the digits of other scripts would match.
        words = re.fullmatch(r"(\d{1,9})/(\d{1,9})", options.shard, re.ASCII)
        number, num_shards = map(int, words.groups()) if words else (0, 0)
        # Shards are counted from 1, as the tasks of a job array often are.
        if not 1 <= number <= num_shards:
            raise InputError(
                "--shard must be I/N, from 1/N to N/N for N parts. Received: "
                f"{options.shard}."
            )
        if not is_file:
            raise InputError(
                "--shard counts the lines of a file: give it with `--input "
                f"FILE`. Received: {options.input or 'standard input'}."
            )
    # Counting reads the whole text; a filter to standard output begins at once.
    if is_file and (options.output or options.shard):
        return shard_lines(count_lines(options.input), number, num_shards)
    return range(sys.maxsize)


def _check_prefixes(options: argparse.Namespace) -> None:
    """Compares prefixes with the text before any work, if possible."""
    from relative_attention.data.lines import count_lines

    if options.prefix is None:
        return
    if _is_typed(options):
        raise InputError(
            "--prefix has a line for each line of a text. Give the text with "
            "`--input FILE`, or through a pipe."
        )
    paths = (options.prefix, options.input)
    # A pipe can be read once: its lines are counted as they come.
    if all(path and os.path.isfile(path) for path in paths):
        num_prefixes, num_lines = map(count_lines, paths)
        if num_prefixes != num_lines:
            raise _unequal(options, num_prefixes, num_lines)


def _unequal(
    options: argparse.Namespace, num_prefixes: int | str, num_lines: int | str
) -> InputError:
    return InputError(
        "--prefix must have a line, if an empty one, for each line of the "
        f"text. Lines received: {num_prefixes} in {options.prefix}, "
        f"{num_lines} in {options.input or 'standard input'}."
    )


# === Input ===


def _splitting(
    options: argparse.Namespace, translator: "ra.Translator"
) -> tuple[bool, bool]:
    """Returns whether lines are split, and whether only a language is missing.

    Raises:
        InputError: if they are to be split, and the language is unknown.
    """
    # `None` is neither `--split-sentences` nor `--no-split-sentences`.
    asked, language = options.split_sentences, translator.source_language
    if asked and language is None:
        raise InputError(
            "--split-sentences needs the language of the source, which the "
            "model's folder does not have: set `decoding.source_language` in "
            "its config.json, to 'en' for English."
        )
    # Several translations of each sentence could be joined in many ways.
    needs_lines = _skips_rules(options) or options.nbest is not None
    if asked is None and not needs_lines:
        asked = translator.split_sentences
        return asked and language is not None, asked and language is None
    return bool(asked), False


def _is_typed(options: argparse.Namespace) -> bool:
    return not options.input and sys.stdin.isatty()


def _chunks(
    options: argparse.Namespace, line_numbers: range
) -> Iterator[_Chunk]:
    """Yields the text in chunks, with prefixes if there are any."""
    from relative_attention.data.lines import read_lines
    from relative_attention.saving.translate_text import read_chunks

    texts: Iterable[list[str]]
    if options.input:
        # Chunks of fixed size: a resumed job finds the same ones.
        texts = read_chunks(options.input, line_numbers)
    elif _is_typed(options):
        is_for_engine = len(options.models) == 1 and not _skips_rules(options)
        if options.engine is None and is_for_engine:
            print(
                "--engine ctranslate2 starts and translates faster.",
                file=sys.stderr,
            )
        # Each line is answered before the next one is typed.
        texts = streams.typed_chunks()
    else:
        texts = streams.stream_chunks()
    prefixes = every = None
    if options.prefix is not None:
        # A shard has the prefixes of its own lines.
        every = read_lines(options.prefix)
        prefixes = itertools.islice(
            every, line_numbers.start, line_numbers.stop
        )
    num_done = line_numbers.start
    # Prefixes are read along with the text, as both may be long.
    for text in texts:
        begun = None
        if prefixes is not None:
            begun = list(itertools.islice(prefixes, len(text)))
            if len(begun) < len(text):
                raise _unequal(options, f"{num_done + len(begun):,}", "more")
        yield _Chunk(num_done + 1, text, begun)
        num_done += len(text)
    # Only the end of the text shows that there are too many. Those after a
    # shard are of other shards.
    rest = prefixes if options.shard or prefixes is None else every
    if rest is not None and next(rest, None) is not None:
        raise _unequal(options, "more", f"{num_done:,}")


# === Output ===


@contextlib.contextmanager
def _opened(
    options: argparse.Namespace, translator: "ra.Translator"
) -> Iterator[streams.StreamOutput | files.Parts]:
    """Opens the output: standard output, a file, or a file in parts."""
    from relative_attention.saving.translate_text import translation_origin

    if options.output is None:
        yield streams.StreamOutput(sys.stdout.buffer)
        return
    texts = (options.input, options.prefix or options.input)
    # A pipe cannot be read again.
    if files.is_stream(options.output) or not all(
        path and os.path.isfile(path) for path in texts
    ):
        # Written whole or not at all, but a new process starts from line 1.
        with files.atomic_file(options.output) as file:
            yield streams.StreamOutput(file)
        return
    # A job is only resumed with what would give the same lines.
    origin = translation_origin(
        translator,
        options.models,
        {"--input": options.input, "--prefix": options.prefix},
        {command.spelled(name): getattr(options, name) for name in _WRITTEN},
        options.checkpoint,
    )
    report = functools.partial(print, file=sys.stderr, flush=True)
    with files.file_in_parts(
        options.output, origin, options.overwrite, report
    ) as parts:
        yield parts


def _progress(
    options: argparse.Namespace,
    line_numbers: range,
    output: streams.StreamOutput | files.Parts,
) -> streams.Progress:
    """Shows how much is done; says what an earlier process did."""
    from relative_attention.saving.translate_text import lines_in_parts

    total = len(line_numbers) if line_numbers.stop < sys.maxsize else None
    num_before = 0
    if len(output):
        # The time left is then computed from this process alone.
        num_before = lines_in_parts(len(output), len(line_numbers))
        print(f"Resuming after {num_before:,} lines.", file=sys.stderr)
    # A counter would mix with translations on the same terminal.
    is_shown = bool(options.output) or not sys.stdout.isatty()
    is_shown = is_shown and not _is_typed(options)
    return streams.Progress(total, num_before, is_shown)
