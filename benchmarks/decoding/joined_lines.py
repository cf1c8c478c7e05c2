"""How good translations are by the length of a line.

The program translates a test text line by line, and then with two, three and
four neighbouring lines joined by a blank, each translated as one, without
splitting it into sentences. From the root of a checkout, with the package
installed:

    python -m benchmarks.decoding.joined_lines MODEL ... \\
        --source test.en --reference test.de

The first table has BLEU, and that of the translations of single lines, joined
before they are scored: what a perfect splitter would give. The text is always
the same one: lines that are left over at its end make a shorter last line. The
second table also has BLEU of single lines by their number of words. Both have
the mean of the seeds of a study, whose runs are `ROW-SEED`. `--picture` draws
the first one.
"""

import argparse
import itertools
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import relative_attention as ra
from benchmarks.harness.command import add_text_arguments
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import read_texts
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.speed_tables import joined_table
from benchmarks.speed_tables import means_over_seeds
from benchmarks.speed_tables import positions_table
from relative_attention.plot.figure import check_matplotlib
from relative_attention.plot.figure import make_figure
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINES = (1, 2, 3, 4)
# A group has lines of so many words or more, and fewer than the next one.
_LEAST_WORDS = (1, 9, 13, 17)
# Colors of Okabe and Ito, gray and olive: most readers tell them apart. The
# markers are for all.
_STYLES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#E69F00", "P"),
    ("#000000", "<"),
    ("#999999", ">"),
    ("#B8A800", "*"),
)


def measure(options: argparse.Namespace) -> list[Row]:
    """Translates single and joined lines with each model."""
    if options.picture:
        check_matplotlib()
    load_tensorflow_quietly()
    sources, references = read_texts(options)
    rows = [
        row
        for model in [options.model, *options.others]
        for row in _measure_model(model, sources, references)
    ]
    if options.picture:
        ra.plot.save_figure(joined_figure(rows), options.picture)
    return rows


def _search(translator: ra.Translator, lines: Sequence[str]) -> list[str]:
    return [found.text for found in translator.search(lines)]


def _measure_model(
    model: str,
    sources: Sequence[str],
    references: Sequence[str],
) -> list[Row]:
    translator = ra.load_translator(model)
    name = pathlib.Path(model).name
    rows: list[Row] = []
    apart = _search(translator, sources)
    for lines in _LINES:
        show_progress(f"{name}, {lines} joined")
        joined, expected = _join(sources, lines), _join(references, lines)
        texts = {
            "bleu": apart if lines == 1 else _search(translator, joined),
            "bleu_apart": _join(apart, lines),
        }
        bleu = {how: ra.corpus_bleu(t, expected) for how, t in texts.items()}
        rows.append(
            {
                "model": name,
                "lines": lines,
                **{how: score.score for how, score in bleu.items()},
                "signature": bleu["bleu"].signature,
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
    """Returns BLEU by lines joined, also line by line, and by words."""
    return f"{joined_table(result)}\n\n{positions_table(result)}"


def joined_figure(rows: Sequence[Row]) -> "Figure":
    """Draws the BLEU of joined lines, over that of the lines one by one.

    Models that were trained on joined lines, `NAME-joined`, are dashed.
    """
    figure = make_figure((7, 4.5))
    axes = figure.subplots()
    joined, apart = (
        means_over_seeds(rows, "lines", score)
        for score in ("bleu", "bleu_apart")
    )
    styles: dict[str, tuple[str, str]] = {}
    for name, means in joined.items():
        base = name.removesuffix("-joined")
        next_style = _STYLES[len(styles) % len(_STYLES)]
        color, marker = styles.setdefault(base, next_style)
        axes.plot(
            list(means),
            [means[lines] / (apart[name][lines] or 1) for lines in means],
            color=color,
            linestyle="-" if base == name else "--",
            marker=marker,
            markersize=5,
            label=name,
        )
    axes.set_xticks(_LINES)
    axes.set_xlabel("lines joined")
    axes.set_ylabel("BLEU, over that of the lines one by one")
    axes.set_ylim(0, 1.05)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    return figure


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_text_arguments(parser)
    parser.add_argument(
        "others", nargs="*", metavar="model", help="further models"
    )
    parser.add_argument(
        "--picture", metavar="FILE.png", help="also draw the first table"
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
