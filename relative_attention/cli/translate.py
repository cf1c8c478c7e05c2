"""`relative-attention translate`."""

import sys

from relative_attention.cli.command import add_command
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import translator_of
from relative_attention.cli.progress import report_cut
from relative_attention.cli.progress import show_progress

# Lines translated before any is written: enough to sort by length.
_CHUNK_LINES = 2000


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "translate",
        _run,
        "translate standard input, line by line, to standard output",
        "relative-attention translate runs/my_model < source > hypotheses",
    )
    parser.add_argument("model_directory", help="what `train` filled")
    add_decoding_options(parser)


def _run(options):
    from relative_attention.data.lines import decode_lines
    from relative_attention.data.parallel_corpus import batched

    translator = translator_of(options)
    lines = decode_lines(sys.stdin.buffer, "standard input")
    num_done = num_cut = 0
    for chunk in batched(lines, _CHUNK_LINES):
        translations = translator.search(
            chunk,
            report=lambda done, before=num_done: show_progress(before + done),
        )
        for translation in translations:
            sys.stdout.buffer.write(f"{translation.text}\n".encode())
        sys.stdout.buffer.flush()
        num_done += len(chunk)
        num_cut += sum(t.was_cut for t in translations)
    report_cut(num_cut, translator)
