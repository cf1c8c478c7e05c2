"""`relative-attention translate`."""

import contextlib
import sys

from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_model_directory
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import check_nbest
from relative_attention.cli.decoding_options import translator_of
from relative_attention.cli.output_file import check_output
from relative_attention.cli.progress import report_cut
from relative_attention.cli.progress import show_progress
from relative_attention.errors import InputError

# Lines translated before any is written: enough to sort by length.
_CHUNK_LINES = 2000


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "translate",
        _run,
        "translate a text line by line, or what is typed",
        "relative-attention translate runs/my_model < source > hypotheses",
    )
    add_model_directory(parser)
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
    add_decoding_options(parser)
    _add_sampling_options(parser)


def _add_sampling_options(parser):
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


def _run(options):
    from relative_attention.data.lines import decode_lines
    from relative_attention.data.lines import read_lines

    check_output(options.output)
    drawing = _sampling_arguments(options)
    translator = translator_of(options)
    if options.nbest is not None:
        check_nbest(
            options.nbest, None if options.sample else translator.num_beams
        )
    if options.input:
        lines = read_lines(options.input)
    elif sys.stdin.isatty():
        lines = _typed_lines()
    else:
        lines = decode_lines(sys.stdin.buffer, "standard input")
    is_typed = not options.input and sys.stdin.isatty()
    with _opened(options.output) as file:
        num_cut = _translate(
            translator,
            lines,
            1 if is_typed else _CHUNK_LINES,
            file,
            options,
            drawing,
        )
    report_cut(num_cut, translator)


def _translate(translator, lines, chunk_lines, file, options, drawing):
    """Write the translations; the number of lines that were cut."""
    from relative_attention.data.parallel_corpus import batched

    num_done = num_cut = 0
    for chunk in batched(lines, chunk_lines):
        translations = _search(translator, chunk, num_done, options, drawing)
        for number, results in enumerate(translations, start=num_done + 1):
            for result in results:
                file.write(_line(number, result, options.nbest).encode())
        file.flush()
        num_done += len(chunk)
        num_cut += sum(results[0].was_cut for results in translations)
    return num_cut


def _sampling_arguments(options):
    """What was asked for of how to draw."""
    given = {
        name: getattr(options, name)
        for name in ("temperature", "top_k", "top_p", "seed")
        if getattr(options, name) is not None
    }
    if given and not options.sample:
        name = next(iter(given)).replace("_", "-")
        raise InputError(f"--{name} says how to draw; add --sample to draw.")
    return given


def _search(translator, chunk, num_before, options, drawing):
    arguments = {
        "num_results": 1 if options.nbest is None else options.nbest,
        "report": lambda done: show_progress(num_before + done),
    }
    try:
        if options.sample:
            return translator.sample(chunk, **arguments, **drawing)
        return translator.search(chunk, **arguments)
    except ValueError as error:
        raise InputError(str(error)) from error


def _line(number, translation, nbest):
    if not nbest:
        return f"{translation.text}\n"
    return f"{number}\t{translation.score:.6f}\t{translation.text}\n"


def _typed_lines():
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
def _opened(path):
    from relative_attention.atomic_files import atomic_file

    if path is None:
        yield sys.stdout.buffer
    else:
        with atomic_file(path) as file:
            yield file
