"""Scores translations and models: `score` and `evaluate`."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import relative_attention as ra
from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError
from relative_attention.files import write_lines

# The metrics of `corpus_scores`, which would load sacreBLEU for `--help`.
_METRICS = ("bleu", "chrf", "ter")


# === score ===


def add_score(subparsers: command.Subparsers) -> None:
    """Adds `score` to the command line."""
    parser = command.add_command(
        subparsers,
        "score",
        _score,
        "print how probable a model finds given translations, each line as a "
        "whole: log-probability (natural), tab, number of tokens",
        "relative-attention score runs/my_model --source test.en "
        "--target test.de > scores.tsv",
    )
    command.add_models(parser)
    parser.text("--source F", required=True)
    parser.text("--target F", required=True)
    parser.text(
        "--output F",
        "one line per pair; both numbers include the end of sentence "
        "(default: standard output)",
    )


def _score(options: argparse.Namespace) -> None:
    streams.check_output(options.output, options.source, options.target)
    output = None if options.output else streams.standard_output()
    sources, targets = _read_pairs(options.source, options.target)
    translator = command.load_models(options)
    progress = streams.Progress(len(sources))
    scores = ra.score_translations(
        translator, sources, targets, report=progress
    )
    progress.end()
    lines = (f"{s.log_probability:.6f}\t{s.num_tokens}" for s in scores)
    if output is None:
        write_lines(options.output, lines)
    else:
        print(*lines, sep="\n", file=output, flush=True)
    print(
        f"{len(scores):,} pairs, {sum(s.num_tokens for s in scores):,} tokens, "
        f"log-probability {sum(s.log_probability for s in scores):.4f}, "
        f"perplexity {ra.corpus_perplexity(scores):.4f}",
        file=sys.stderr,
    )


def _read_pairs(source: str, target: str) -> tuple[list[str], list[str]]:
    """Reads both files, and refuses pairs that cannot be scored."""
    from relative_attention.data.lines import read_lines

    # Once each, as a pipe cannot be read again.
    sources, targets = (list(read_lines(path)) for path in (source, target))
    if len(sources) != len(targets):
        raise InputError(
            "The two files must have a line for each other's lines. Received: "
            f"{source} with {len(sources):,} lines, {target} with "
            f"{len(targets):,}."
        )
    if not sources:
        raise InputError(
            f"{source} and {target} are empty: there is nothing to score."
        )
    for path, lines in ((source, sources), (target, targets)):
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                raise InputError(
                    f"{path}, line {number:,} is empty: there is nothing to "
                    "score. Leave the pair out of both files."
                )
    return sources, targets


# === evaluate ===


def add_evaluate(subparsers: command.Subparsers) -> None:
    """Adds `evaluate` to the command line."""
    parser = command.add_command(
        subparsers,
        "evaluate",
        _evaluate,
        "translate a text and print BLEU, chrF and TER with sacreBLEU's "
        "signatures; compare with other translations",
        "relative-attention evaluate runs/my_model --source test.en "
        "--reference test.de --compare runs/other_model",
    )
    command.add_models(parser)
    parser.text("--source F", required=True)
    parser.text("--reference F", required=True)
    parser.text(
        "--metrics",
        "default: all",
        nargs="+",
        choices=_METRICS,
        default=_METRICS,
    )
    parser.flag("--lowercase", "ignore case in BLEU and chrF; TER always does")
    parser.text(
        "--tokenizer",
        "tokenizer for BLEU (default: 13a); moses needs `--language`, and is "
        "used in many papers on small corpora, with `--lowercase`; cased 13a "
        "is then printed as well",
        choices=("13a", "moses"),
        default="13a",
    )
    parser.text("--language CODE", "such as `de`, for `--tokenizer moses`")
    parser.text("--hypotheses F", "also write the translations here")
    parser.text(
        "--sentence-scores F",
        "also write the scores of each sentence here, separated by tabs, "
        "with a header: the metrics, and the model's own score",
    )
    parser.text(
        "--plot F",
        "also draw BLEU against the length of the source here, as PNG, "
        "one line per system; needs `matplotlib`",
    )
    parser.text(
        "--compare DIR_OR_F",
        "another model (a folder, or a name of the zoo), or a file of "
        "translations, to compare by paired bootstrap; may be given several "
        "times",
        action="append",
        default=[],
    )
    parser.integer(
        "--resamples N", "of the bootstrap (default: 1000)", default=1000
    )
    parser.flag(
        "--split-sentences",
        "translate the sentences of a line one by one, as `translate` does; "
        "without it, lines are translated as they are",
    )
    command.add_decoding_options(parser)
    command.add_engine_options(parser)


def _evaluate(options: argparse.Namespace) -> None:
    from relative_attention import evaluation
    from relative_attention.evaluation.significance import bootstrap_table

    _check(options)
    corpus = ra.ParallelCorpus(options.source, options.reference)
    corpus.check()
    sources, references = (list(side) for side in zip(*corpus))
    others = {path: _other(path, options) for path in options.compare}
    tokenize = options.tokenizer
    if options.language is not None:
        tokenize = f"moses-{options.language}"
    shared = {"lowercase": options.lowercase, "tokenize": tokenize}
    how: dict[str, Any] = {"metrics": options.metrics, **shared}
    translations = _translations(command.load_models(options), sources, options)
    hypotheses = [translation.text for translation in translations]
    if options.hypotheses:
        write_lines(options.hypotheses, hypotheses)
    if options.sentence_scores:
        columns = evaluation.sentence_scores(hypotheses, references, **how)
        columns["model"] = [translation.score for translation in translations]
        rows = [[f"{x:.4f}" for x in row] for row in zip(*columns.values())]
        lines = map("\t".join, [list(columns), *rows])
        write_lines(options.sentence_scores, lines)
    if options.tokenizer != "13a" and "bleu" in options.metrics:
        print(evaluation.corpus_bleu(hypotheses, references))
    scores = evaluation.corpus_scores(hypotheses, references, **how)
    print(*scores.values(), sep="\n", flush=True)
    systems = {_name(options): hypotheses}
    for name, other in others.items():
        if not isinstance(other, list):
            other = [t.text for t in _translations(other, sources, options)]
        systems[name] = other
    if options.plot:
        by_length = {
            name: evaluation.bleu_by_length(
                sources, texts, references, **shared
            )
            for name, texts in systems.items()
        }
        figure = ra.plot.length_figure(by_length)
        ra.plot.save_figure(figure, options.plot)
    if others:
        results = evaluation.paired_bootstrap(
            systems, references, num_resamples=options.resamples, **how
        )
        print(f"\n{bootstrap_table(results)}")


def _check(options: argparse.Namespace) -> None:
    """Refuses options that are wrong, before any work."""
    from relative_attention.evaluation.scores import check_moses
    from relative_attention.evaluation.significance import check_bootstrap

    files = [options.source, options.reference, *options.compare]
    for path in (options.hypotheses, options.sentence_scores, options.plot):
        streams.check_output(path, *files)
        files.append(path)
    if options.plot:
        ra.plot.check_matplotlib()
    if (options.tokenizer == "moses") != (options.language is not None):
        raise InputError(
            "`--tokenizer moses` and `--language` go together: the code of "
            "the references' language, such as `de`. Received: --tokenizer "
            f"{options.tokenizer}, --language {options.language}."
        )
    if options.language is not None:
        check_moses(options.language)
    with command.input_errors():
        check_bootstrap(options.resamples)
    names = [_name(options), *options.compare]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(
                f"`--compare {name}` is compared with itself. Give another "
                "model, or a file of translations."
            )


def _other(
    path: str, options: argparse.Namespace
) -> "ra.Translator | list[str]":
    """Returns a translator, or the translations of a file."""
    from relative_attention.data.lines import read_lines
    from relative_attention.zoo import find_file_or_model

    if find_file_or_model(path).is_dir():
        return command.load_models(options, [path])
    ra.ParallelCorpus(path, options.reference).check()
    return list(read_lines(path))


@command.input_errors()
def _translations(
    translator: "ra.Translator",
    sources: Sequence[str],
    options: argparse.Namespace,
) -> "list[ra.Translation]":
    """Translates the sources, and reports which were cut."""
    progress = streams.Progress(len(sources))
    translations = translator.search(
        sources, report=progress, split_sentences=options.split_sentences
    )
    progress.end()
    cut = [n for n, t in enumerate(translations, start=1) if t.was_cut]
    streams.report_cut(len(cut), cut, translator)
    return translations


def _name(options: argparse.Namespace) -> str:
    """Returns the names of the models in tables and pictures."""
    return " + ".join(options.models)
