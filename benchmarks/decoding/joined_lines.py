"""What a model makes of several sentences on one line.

The program joins the lines of a test text, two, three and four neighbours at a
time, with a blank between, and translates each joined line as one, without
splitting it into sentences. From the root of a checkout, with the package
installed:

    python -m benchmarks.decoding.joined_lines MODEL \\
        --source test.en --reference test.de

The table has BLEU, and its share of that of single lines. The last column has
the translations of single lines, joined before they are scored: what a perfect
splitter would give. The text is always the same one: lines that are left over
at its end make a shorter last line.
"""

import argparse
from collections.abc import Sequence

import relative_attention as ra
from benchmarks.harness.command import add_text_arguments
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import read_texts
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.tables import markdown_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_LINES = (1, 2, 3, 4)


def measure(options: argparse.Namespace) -> list[Row]:
    """Translates single and joined lines."""
    load_tensorflow_quietly()
    sources, references = read_texts(options)
    translator = ra.load_translator(options.model)
    rows: list[Row] = []
    apart: list[str] = []
    for lines in _LINES:
        show_progress(f"{lines} joined")
        texts = translator.translate(_join(sources, lines))
        apart = apart or texts
        expected = _join(references, lines)
        bleu = ra.corpus_bleu(texts, expected)
        joined_later = ra.corpus_bleu(_join(apart, lines), expected)
        rows.append(
            {
                "lines": lines,
                "bleu": bleu.score,
                "bleu_apart": joined_later.score,
                "signature": bleu.signature,
                "sentences": len(sources),
            }
        )
    show_progress()
    return rows


def _join(texts: Sequence[str], lines: int) -> list[str]:
    """Returns texts, so many neighbours joined by a blank."""
    return [
        " ".join(texts[start : start + lines])
        for start in range(0, len(texts), lines)
    ]


def describe(result: Result) -> str:
    """Returns the table."""
    single = result.rows[0]["bleu"]
    cells = [
        [
            str(row["lines"]),
            f"{row['bleu']:.2f}",
            f"{row['bleu'] / single:.2f}" if single else "",
            f"{row['bleu_apart']:.2f}",
        ]
        for row in result.rows
    ]
    header = ["lines joined", "BLEU", "share", "translated apart"]
    table = markdown_table(header, cells)
    row = result.rows[0]
    return f"{table}\n\n{row['sentences']:,} lines; {row['signature']}"


main = benchmark(
    "decoding.joined_lines",
    __doc__,
    "runs/mine --source test.en --reference test.de",
    add_text_arguments,
    measure,
    describe,
)

if __name__ == "__main__":
    main()
