"""What a translator loses as a model of CTranslate2, and which settings fit.

The program exports a trained model with `export_ctranslate2` in float32 and
int8 and translates the same sentences with the package and with CTranslate2,
greedily and with a beam of 4. From the root of a checkout, with the package
and its extra `ctranslate2` installed:

    python -m benchmarks.decoding.ctranslate2_quality MODEL \\
        --source test.en --reference test.de

`beam_search` divides a log-probability by `((5 + len) / 6)^alpha`,
CTranslate2 by `len^alpha`, so that an alpha of one is another of the other:
the table has a row for each of several. Both stop at the same length.

Greedy searches should find the same. For each sentence where they do not, a
second table says how much more probable, at the first token that differs, the
package's model finds its own token than CTranslate2's: a near tie, which the
order of a sum decides, has a difference of about 1e-5 or less.

With `CT2_USE_MKL=1` in the environment, CTranslate2 computes as on an Intel
processor on others too, which on an AMD processor with AVX2 and without VNNI
made int8 several times as exact.
"""

import argparse
import pathlib
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

import relative_attention as ra
from benchmarks.decoding.ctranslate2_search import CTranslate2Search
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.tables import markdown_table
from relative_attention.data.lines import read_lines
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_OURS = "this package"
_NUM_BEAMS = 4
_LENGTH_PENALTY = 0.6
# The alpha that int8 is searched with, and float32 beside others.
_NEAREST = 0.4
_PENALTIES = {
    "float32": (0.0, 0.2, 0.3, _NEAREST, 0.45, 0.5, 0.6, 0.8, 1.0),
    "int8": (_NEAREST,),
}

Searches = Mapping[str, CTranslate2Search]


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser(
        "decoding.ctranslate2_quality",
        __doc__,
        "runs/mine --source test.en --reference test.de",
    )
    add = parser.add_argument
    add("model", help="a model directory, or a name of the zoo")
    add("--source", required=True, metavar="FILE")
    add("--reference", required=True, metavar="FILE")
    add(
        "--sentences",
        type=positive_int,
        metavar="NUMBER",
        help="the first so many (default: all)",
    )
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Translates with the package and with both models of CTranslate2.

    Args:
        options: The options of the command.

    Returns:
        A list of a row of kind `"search"` for each search, and of one of kind
        `"difference"` for each sentence where the greedy ones part.
    """
    load_tensorflow_quietly()
    translator = ra.load_translator(options.model)
    sentences, references = (
        list(read_lines(path))[: options.sentences]
        for path in (options.source, options.reference)
    )
    with tempfile.TemporaryDirectory() as folder:
        searches = {
            name: CTranslate2Search(
                translator, pathlib.Path(folder, name), name
            )
            for name in _PENALTIES
        }
        rows = _compare_searches(translator, searches, sentences, references)
        return rows + _find_differences(
            translator, searches["float32"], sentences
        )


def _compare_searches(
    translator: "ra.Translator",
    searches: Searches,
    sentences: Sequence[str],
    references: Sequence[str],
) -> list[Row]:
    """Returns a row for each search, with BLEU and what it shares with ours."""
    rows: list[Row] = []
    for num_beams in (1, _NUM_BEAMS):
        ours = _translate(translator, sentences, num_beams)
        found = {(_OURS, _LENGTH_PENALTY): ours}
        for name, search in searches.items():
            # A greedy search compares nothing of different length.
            for alpha in _PENALTIES[name] if num_beams > 1 else [0.0]:
                show_progress(f"{name}, beam {num_beams}, alpha {alpha}")
                found[f"CTranslate2, {name}", alpha] = search.translate(
                    sentences, num_beams, alpha
                )
        rows += [
            {
                "kind": "search",
                "engine": engine,
                "num_beams": num_beams,
                "alpha": alpha if num_beams > 1 else None,
                "bleu": ra.corpus_bleu(texts, references).score,
                "same_as_ours": sum(map(str.__eq__, texts, ours)),
                "sentences": len(sentences),
            }
            for (engine, alpha), texts in found.items()
        ]
    show_progress()
    return rows


def _translate(
    translator: "ra.Translator", sentences: Sequence[str], num_beams: int
) -> list[str]:
    """Returns the package's translations."""
    translator.num_beams = num_beams
    translator.length_penalty = _LENGTH_PENALTY
    return translator.translate(sentences)


def _find_differences(
    translator: "ra.Translator",
    search: CTranslate2Search,
    sentences: Sequence[str],
) -> list[Row]:
    """Returns a row for each sentence where the greedy searches part."""
    ours = _translate(translator, sentences, 1)
    theirs = search.translate(sentences, 1, 0.0)
    rows: list[Row] = []
    for number, (sentence, one, other) in enumerate(
        zip(sentences, ours, theirs), start=1
    ):
        if one == other:
            continue
        (token_ids,) = search.token_ids([sentence], 1, 0.0)
        position, difference = first_difference(translator, sentence, token_ids)
        rows.append(
            {
                "kind": "difference",
                "sentence": number,
                "token": position,
                "logit_difference": difference,
                "ours": one,
                "theirs": other,
            }
        )
    return rows


def first_difference(
    translator: "ra.Translator", sentence: str, token_ids: Sequence[int]
) -> tuple[int | None, float]:
    """Finds where ids leave what the model finds best, and by how much.

    Args:
        translator: A `Translator`.
        sentence: A string, what is translated.
        token_ids: A sequence of integers, a translation without its end.

    Returns:
        A pair of a position, `None` where there is no difference, and the
        difference of the logits there.
    """
    model = translator.model
    end_id = translator.vocabulary.end_id
    (source,) = translator.source_vocabulary.encode([sentence])
    inputs = {
        "source_token_ids": np.array([[*source, end_id]]),
        "target_token_ids": np.array([[model.start_token_id, *token_ids]]),
    }
    logits = np.asarray(model(inputs))[0]
    for position, token_id in enumerate([*token_ids, end_id]):
        difference = float(logits[position].max() - logits[position, token_id])
        if difference > 0:
            return position, difference
    return None, 0.0


def describe(result: Result) -> str:
    """Returns the table of searches and, if they part, that of differences."""
    searches = [row for row in result.rows if row["kind"] == "search"]
    differences = [row for row in result.rows if row["kind"] == "difference"]
    cells = [
        [
            row["engine"],
            row["num_beams"],
            "-" if row["alpha"] is None else row["alpha"],
            f"{row['bleu']:.2f}",
            f"{row['same_as_ours']:,}",
        ]
        for row in searches
    ]
    header = ["search", "beam", "alpha", "BLEU", "same as this package's"]
    text = (
        f"{markdown_table(header, cells)}\n\n"
        f"{searches[0]['sentences']:,} sentences."
    )
    if not differences:
        return text
    cells = [
        [
            row["sentence"],
            "-" if row["token"] is None else row["token"],
            f"{row['logit_difference']:.2g}",
            row["ours"],
            row["theirs"],
        ]
        for row in differences
    ]
    header = ["sentence", "token", "logit difference", "ours", "theirs"]
    return f"{text}\n\n{markdown_table(header, cells)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    run_benchmark(
        parser,
        options,
        arguments,
        measure,
        describe,
        ["ctranslate2"],
        "float32, of CTranslate2 int8 too",
    )


if __name__ == "__main__":
    main()
