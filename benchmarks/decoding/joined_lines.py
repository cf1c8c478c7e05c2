"""How good translations are by the length of a line.

The program translates a test text line by line, and then with two, three and
four neighbouring lines joined by a blank, each translated as one, without
splitting it into sentences. From the root of a checkout, with the package
installed:

    python -m benchmarks.decoding.joined_lines MODEL ... \\
        --source test.en --reference test.de

The first table has BLEU, and its share of that of single lines. The row
"apart" of a model has the translations of single lines, joined before they are
scored: what a perfect splitter would give. The text is always the same one:
lines that are left over at its end make a shorter last line. The second table
has BLEU of single lines by their number of words.
"""

import argparse
import itertools
import pathlib
import sys
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
# A group has lines of so many words or more, and fewer than the next one.
_LEAST_WORDS = (1, 9, 13, 17)


def measure(options: argparse.Namespace) -> list[Row]:
    """Translates single and joined lines with each model."""
    load_tensorflow_quietly()
    sources, references = read_texts(options)
    return [
        row
        for model in [options.model, *options.others]
        for row in _measure_model(model, sources, references)
    ]


def _measure_model(
    model: str, sources: Sequence[str], references: Sequence[str]
) -> list[Row]:
    translator = ra.load_translator(model)
    name = pathlib.Path(model).name
    rows: list[Row] = []
    apart: list[str] = []
    for lines in _LINES:
        show_progress(f"{name}, {lines} joined")
        texts = translator.translate(_join(sources, lines))
        apart = apart or texts
        expected = _join(references, lines)
        bleu = ra.corpus_bleu(texts, expected)
        joined_later = ra.corpus_bleu(_join(apart, lines), expected)
        rows.append(
            {
                "model": name,
                "lines": lines,
                "bleu": bleu.score,
                "bleu_apart": joined_later.score,
                "signature": bleu.signature,
                "sentences": len(sources),
            }
        )
    show_progress()
    return rows + [
        {"model": name, **group}
        for group in _by_words(sources, apart, references)
    ]


def _by_words(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str]
) -> list[Row]:
    """Returns BLEU of lines that have about as many words."""
    rows = []
    for least, above in itertools.pairwise((*_LEAST_WORDS, sys.maxsize)):
        chosen = [
            pair
            for source, *pair in zip(sources, texts, references)
            if least <= len(source.split()) < above
        ]
        if chosen:
            own, expected = map(list, zip(*chosen))
            bleu = ra.corpus_bleu(own, expected)
            rows.append(
                {
                    "least_words": least,
                    "bleu": bleu.score,
                    "sentences": len(chosen),
                }
            )
    return rows


def _join(texts: Sequence[str], lines: int) -> list[str]:
    """Returns texts, so many neighbours joined by a blank."""
    return [
        " ".join(texts[start : start + lines])
        for start in range(0, len(texts), lines)
    ]


def describe(result: Result) -> str:
    """Returns the two tables."""
    joined = [row for row in result.rows if "lines" in row]
    by_words = [row for row in result.rows if "least_words" in row]
    return "\n\n".join(
        [
            _joined_table(joined),
            _words_table(by_words),
            f"{joined[0]['sentences']:,} lines; {joined[0]['signature']}",
        ]
    )


def _joined_table(rows: Sequence[Row]) -> str:
    cells = []
    for model, group in itertools.groupby(rows, lambda row: row["model"]):
        found = list(group)
        single = found[0]["bleu"]
        shares = [row["bleu"] / single if single else 0 for row in found]
        cells.append(
            [
                model,
                *(
                    f"{row['bleu']:.2f} ({share:.2f})"
                    for row, share in zip(found, shares)
                ),
            ]
        )
        cells.append(["apart", *(f"{row['bleu_apart']:.2f}" for row in found)])
    return markdown_table(["lines joined", *map(str, _LINES)], cells)


def _words_table(rows: Sequence[Row]) -> str:
    numbers = {row["least_words"]: row["sentences"] for row in rows}
    header = [
        "words",
        *(f"from {n} ({count:,} lines)" for n, count in numbers.items()),
    ]
    cells = [
        [model, *(f"{row['bleu']:.2f}" for row in group)]
        for model, group in itertools.groupby(rows, lambda row: row["model"])
    ]
    return markdown_table(header, cells)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_text_arguments(parser)
    parser.add_argument(
        "others", nargs="*", metavar="model", help="further models"
    )


main = benchmark(
    "decoding.joined_lines",
    __doc__,
    "runs/mine --source test.en --reference test.de",
    _add_arguments,
    measure,
    describe,
)

if __name__ == "__main__":
    main()
