"""Scores translations and models: `score` and `evaluate`."""

import argparse
import json
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import relative_attention as ra
from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError
from relative_attention.files import write_lines
from relative_attention.text.form import clean_text

# The metrics of `corpus_scores`, which would load sacreBLEU for `--help`.
_METRICS = ("bleu", "chrf", "chrf++", "ter")
# sacreBLEU's tokenizers that download nothing, and Moses'.
_TOKENIZERS = "13a intl zh char none ja-mecab ko-mecab moses".split()


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
    parser.text("--source FILE", "the text, line by line", required=True)
    parser.text("--target FILE", "its translation, line by line", required=True)
    parser.text(
        "--output FILE",
        "one line per pair; both numbers include the end of sentence "
        "(default: standard output)",
    )
    parser.flag(
        "--tokens",
        "also print, after another tab, a JSON list of pairs: each token and "
        "its log-probability",
    )


def _score(options: argparse.Namespace) -> None:
    # Before the model is loaded, which takes longest.
    streams.check_output(options.output, options.source, options.target)
    sources, targets = _read_pairs(options.source, options.target)
    translator = command.load_models(options)
    progress = streams.Progress(len(sources))
    scores = ra.score_translations(
        translator,
        sources,
        targets,
        report=progress,
        return_tokens=options.tokens,
    )
    progress.end()
    lines = [f"{s.log_probability:.6f}\t{s.num_tokens}" for s in scores]
    if options.tokens:
        lines = [
            f"{line}\t{_tokens_of(translator, score)}"
            for line, score in zip(lines, scores)
        ]
    if options.output:
        write_lines(options.output, lines)
    else:
        # Flushed, as the totals below go to another stream.
        print(*lines, sep="\n", flush=True)
    print(
        f"{len(scores):,} pairs, {sum(s.num_tokens for s in scores):,} tokens, "
        f"log-probability {sum(s.log_probability for s in scores):.4f}, "
        f"perplexity {ra.corpus_perplexity(scores):.4f}",
        file=sys.stderr,
    )


def _tokens_of(translator: Any, score: "ra.TranslationScore") -> str:
    pieces = translator.vocabulary.pieces(score.token_ids)
    numbers = (round(x, 6) for x in score.token_log_probabilities or ())
    return json.dumps([*zip(pieces, numbers)], ensure_ascii=False)


def _read_pairs(source: str, target: str) -> tuple[list[str], list[str]]:
    """Reads both files, and refuses pairs that cannot be scored."""
    targets, sources = _read_texts(target, source)
    for path, lines in ((source, sources), (target, targets)):
        for number, line in enumerate(lines, start=1):
            if not clean_text(line):
                raise InputError(
                    f"{path}, line {number:,} is empty: there is nothing to "
                    "score. Leave the pair out of both files."
                )
    return sources, targets


def _read_texts(first: str, *others: str) -> list[list[str]]:
    """Reads files, which must have the same number of lines."""
    from relative_attention.data.lines import read_lines

    # Once each, as a pipe cannot be read again.
    texts = [list(read_lines(path)) for path in (first, *others)]
    for path, lines in zip(others, texts[1:]):
        if len(lines) != len(texts[0]):
            raise InputError(
                "The two files must have a line for each other's lines. "
                f"Received: {path} with {len(lines):,} lines, {first} with "
                f"{len(texts[0]):,}."
            )
    if not texts[0]:
        raise InputError(f"{first} is empty: there is nothing to score.")
    return texts


# === evaluate ===


def add_evaluate(subparsers: command.Subparsers) -> None:
    """Adds `evaluate` to the command line."""
    parser = command.add_command(
        subparsers,
        "evaluate",
        _evaluate,
        "print BLEU, chrF, chrF++ and TER, with sacreBLEU's signatures, of a "
        "model's translations or of files of translations; compare several",
        "relative-attention evaluate runs/my_model --source test.en "
        "--reference test.de --compare runs/other_model",
    )
    command.add_module(parser)
    parser.positional(
        "models",
        "MODEL_OR_FILE",
        f"{command.MODEL}; several with the same vocabulary are an ensemble. "
        "Or files of translations, each compared with the first",
        nargs="+",
    )
    parser.text("--source FILE", "the text to translate, if there is a model")
    parser.text(
        "--reference FILE",
        "may be given several times, for several references of each line",
        action="append",
        required=True,
    )
    parser.text(
        "--metrics NAME",
        "of bleu, chrf, chrf++, ter (default: all)",
        nargs="+",
        choices=_METRICS,
        default=_METRICS,
    )
    parser.flag("--lowercase", "ignore case, which TER always does")
    parser.text(
        "--tokenizer NAME",
        f"tokenizer for BLEU, of {', '.join(_TOKENIZERS)} (default: 13a; for "
        "references without blanks zh or char); moses needs `--language`, and "
        "is used in many papers on small corpora, with `--lowercase`; cased "
        "13a is then printed as well",
        choices=_TOKENIZERS,
    )
    parser.text("--language CODE", "such as `de`, for `--tokenizer moses`")
    parser.text("--hypotheses FILE", "also write the model's translations here")
    parser.text(
        "--sentence-scores FILE",
        "also write the scores of each sentence here, separated by tabs, "
        "with a header: the metrics, and the model's own score",
    )
    parser.text(
        "--plot FILE",
        "also draw BLEU against the length of the source here, as PNG, "
        "one line per system; needs `matplotlib`",
    )
    parser.text(
        "--compare FILE",
        "another model (a folder, or a bundled one), or a file of "
        "translations, to compare by paired bootstrap; may be given several "
        "times",
        action="append",
        default=[],
    )
    parser.integer(
        "--resamples N", "of the bootstrap (default: 1000)", default=1000
    )
    command.add_checkpoint(parser)
    command.add_decoding_options(parser)
    command.add_engine_options(parser)


def _evaluate(options: argparse.Namespace) -> None:
    from relative_attention import evaluation
    from relative_attention.evaluation.scores import fitting_tokenizer
    from relative_attention.evaluation.significance import bootstrap_table

    # The first system is scored, and all others are compared with it.
    systems = _systems(options)
    _check(options, systems)
    texts = _texts(options, systems)
    references = [texts[path] for path in options.reference]
    # The default tokenizer would take a sentence without blanks for one word.
    tokenize = options.tokenizer or fitting_tokenizer(references)
    if options.language is not None:
        tokenize = f"moses-{options.language}"
    shared = {"lowercase": options.lowercase, "tokenize": tokenize}
    how: dict[str, Any] = {"metrics": options.metrics, **shared}
    # All of them, before minutes of translation.
    translators = {
        name: command.load_models(options, models)
        for name, models in systems.items()
        if models
    }
    first, *others = systems
    if first in translators:
        translations = _translations(
            translators[first], texts[options.source], options
        )
        hypotheses = [translation.text for translation in translations]
    else:
        translations, hypotheses = [], texts[first]
    if options.hypotheses:
        # Kept before anything else can fail: it took the longest.
        write_lines(options.hypotheses, hypotheses)
    if options.sentence_scores:
        columns = evaluation.sentence_scores(hypotheses, references, **how)
        if translations:
            # A file of translations has no model that could score them.
            columns["model"] = [one.score for one in translations]
        rows = [[f"{x:.4f}" for x in row] for row in zip(*columns.values())]
        lines = map("\t".join, [list(columns), *rows])
        write_lines(options.sentence_scores, lines)
    if options.tokenizer == "moses" and "bleu" in options.metrics:
        # Moses' BLEU does not compare with the usual one, which is shown too.
        print(evaluation.corpus_bleu(hypotheses, references))
    scores = evaluation.corpus_scores(hypotheses, references, **how)
    print(*scores.values(), sep="\n", flush=True)
    # The others are translated after the first scores are shown.
    found = {first: hypotheses}
    for name in others:
        if name in translators:
            search = _translations(
                translators[name], texts[options.source], options
            )
            found[name] = [translation.text for translation in search]
        else:
            found[name] = texts[name]
    if options.plot:
        sources = texts[options.source]
        by_length = {
            name: evaluation.bleu_by_length(
                sources, hypotheses, references, **shared
            )
            for name, hypotheses in found.items()
        }
        figure = ra.plot.length_figure(by_length)
        ra.plot.save_figure(figure, options.plot)
    if others:
        results = evaluation.paired_bootstrap(
            found, references, num_resamples=options.resamples, **how
        )
        print(f"\n{bootstrap_table(results)}")


def _systems(options: argparse.Namespace) -> dict[str, list[str]]:
    """Returns the models of each system by its name; none for a file."""
    from relative_attention.zoo import find_file_or_model

    def is_file(path: str) -> bool:
        return not find_file_or_model(path).is_dir()

    # Models would form an ensemble; files are systems of their own.
    files = [path for path in options.models if is_file(path)]
    if files and len(files) < len(options.models):
        raise InputError(
            f"{files[0]} is a file, and cannot be in an ensemble of models. "
            f"Compare it by `--compare {files[0]}`."
        )
    systems: list[tuple[str, list[str]]] = [(path, []) for path in files]
    if not files:
        systems = [(" + ".join(options.models), options.models)]
    for path in options.compare:
        systems.append((path, [] if is_file(path) else [path]))
    # Each by its files, as `M` and `M/` are one model.
    places = [
        [find_file_or_model(path).resolve() for path in models or [name]]
        for name, models in systems
    ]
    for number, (name, _) in enumerate(systems):
        if places[number] in places[:number]:
            raise InputError(
                f"`{name}` is compared with itself. Give another model, or a "
                "file of translations."
            )
    return dict(systems)


def _check(
    options: argparse.Namespace, systems: Mapping[str, Sequence[str]]
) -> None:
    """Refuses options that are wrong, before any work."""
    from relative_attention.evaluation.scores import check_moses
    from relative_attention.evaluation.scores import check_tokenizer
    from relative_attention.evaluation.significance import check_bootstrap

    files = [options.source, *options.reference, *systems]
    for path in (options.hypotheses, options.sentence_scores, options.plot):
        streams.check_output(path, *files)
        # Two outputs must not be one file, either.
        files.append(path)
    if options.plot:
        ra.plot.check_matplotlib()
    if (options.tokenizer == "moses") != (options.language is not None):
        raise InputError(
            "`--tokenizer moses` and `--language` go together: the code of "
            "the references' language, such as `de`. Received: --tokenizer "
            f"{options.tokenizer}, --language {options.language}."
        )
    with command.input_errors():
        # It would otherwise fail after the last translation.
        check_bootstrap(options.resamples)
        if options.language is not None:
            check_moses(options.language)
        elif options.tokenizer is not None:
            check_tokenizer(options.tokenizer)
    # What needs a model is refused where all systems are files.
    models = [name for name, of_one in systems.items() if of_one]
    if options.source is None and (models or options.plot):
        raise InputError(
            "Give the source text by `--source FILE`: it is "
            + (f"what {models[0]} translates." if models else "for `--plot`.")
        )
    of_models = (
        *command.DECODING_OPTIONS,
        *command.ENGINE_OPTIONS,
        "checkpoint",
    )
    for name in command.given(options, of_models) if not models else ():
        raise InputError(
            f"{command.spelled(name)} is for models, and "
            f"{' and '.join(systems)} hold translations: leave it out."
        )
    first = next(iter(systems))
    if options.hypotheses and first not in models:
        raise InputError(
            f"--hypotheses is for models, and {first} holds translations: "
            "leave it out."
        )


def _texts(
    options: argparse.Namespace, systems: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Reads all files, by their paths."""
    files = [name for name, models in systems.items() if not models]
    paths = [*options.reference, *files]
    if options.source is not None:
        paths.append(options.source)
    texts = dict(zip(paths, _read_texts(*paths)))
    for path in (*options.reference, *files):
        # Its numbers would be scored as if they were words.
        if all("\t" in line for line in texts[path]):
            raise InputError(
                f"Each line of {path} has a tab, so it is a table, not a "
                "text. Write each column to a file of its own, such as by "
                "`cut -f 3`."
            )
    return texts


@command.input_errors()
def _translations(
    translator: "ra.Translator",
    sources: Sequence[str],
    options: argparse.Namespace,
) -> "list[ra.Translation]":
    """Translates the sources, and reports which were cut."""
    progress = streams.Progress(len(sources))
    translations = translator.search(sources, report=progress)
    progress.end()
    # The score of a system that did not read whole lines is too low.
    cut = (n for n, t in enumerate(translations, start=1) if t.was_cut)
    streams.report_cut(streams.NotedLines(cut), translator)
    return translations
