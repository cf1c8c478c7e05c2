"""Scores a model: `relative-attention evaluate`."""

import argparse
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_models
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import add_dtype_option
from relative_attention.cli.decoding_options import translator_of
from relative_attention.cli.output_file import check_output
from relative_attention.cli.progress import report_cut
from relative_attention.cli.progress import show_progress
from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translation
    from relative_attention.decoding import Translator

# `corpus_scores` knows them; to ask it would load sacreBLEU for `--help`.
_METRICS = ("bleu", "chrf", "ter")


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "evaluate",
        _run,
        "translate a text and print BLEU, chrF and TER with sacreBLEU's "
        "signatures; compare with other translations",
        "relative-attention evaluate runs/my_model --source test.en "
        "--reference test.de --compare runs/other_model",
    )
    add_models(parser)
    parser.add_argument("--source", metavar="F", required=True)
    parser.add_argument("--reference", metavar="F", required=True)
    parser.add_argument(
        "--metrics",
        nargs="+",
        choices=_METRICS,
        default=_METRICS,
        help="default: all",
    )
    parser.add_argument(
        "--lowercase",
        action="store_true",
        help="ignore case in BLEU and chrF; TER always does",
    )
    _add_tokenizer(parser)
    parser.add_argument(
        "--hypotheses", metavar="F", help="also write the translations here"
    )
    parser.add_argument(
        "--sentence-scores",
        metavar="F",
        help="also write the scores of each sentence here, with tabs between "
        "them and a header: the metrics, and the model's own score",
    )
    parser.add_argument(
        "--plot",
        metavar="F",
        help="also draw BLEU against the length of the source here, as PNG, "
        "a line for each of those compared; needs `matplotlib`",
    )
    parser.add_argument(
        "--compare",
        metavar="DIR_OR_F",
        action="append",
        default=[],
        help="another model (a folder, or a name of the zoo), or a file of "
        "translations, to compare this one with by paired bootstrap; can be "
        "given several times",
    )
    parser.add_argument(
        "--resamples",
        type=int,
        default=1000,
        metavar="N",
        help="of the bootstrap (default: 1000)",
    )
    add_decoding_options(parser)
    add_dtype_option(parser)


def _add_tokenizer(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name the tokeniser of BLEU."""
    parser.add_argument(
        "--tokenizer",
        choices=("13a", "moses"),
        default="13a",
        help="of BLEU: sacreBLEU's 13a, or Moses' of the references' "
        "`--language`, which papers on small corpora have, most of them with "
        "`--lowercase`; cased 13a is printed beside it",
    )
    parser.add_argument(
        "--language",
        metavar="CODE",
        help="such as `de`, for `--tokenizer moses`",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.evaluation import bootstrap_table
    from relative_attention.evaluation import corpus_scores
    from relative_attention.evaluation import paired_bootstrap
    from relative_attention.evaluation import sentence_scores
    from relative_attention.files import atomic_file

    sources, references, others = _read(options)
    how: dict[str, Any] = {
        "metrics": options.metrics,
        "lowercase": options.lowercase,
        "tokenize": _tokenizer(options),
    }
    translations = _translations(
        translator_of(options, more_names=("dtype",)), sources
    )
    hypotheses = [translation.text for translation in translations]
    if options.hypotheses:
        with atomic_file(options.hypotheses, "w") as file:
            file.writelines(f"{line}\n" for line in hypotheses)
    if options.sentence_scores:
        columns = sentence_scores(hypotheses, references, **how)
        columns["model"] = [translation.score for translation in translations]
        _write_columns(columns, options.sentence_scores)
    if options.tokenizer != "13a" and "bleu" in options.metrics:
        print(*corpus_scores(hypotheses, references, ["bleu"]).values())
    for score in corpus_scores(hypotheses, references, **how).values():
        print(score, flush=True)
    systems = {_name(options.models): hypotheses}
    for name, other in others.items():
        systems[name] = (
            other
            if isinstance(other, list)
            else [t.text for t in _translations(other, sources)]
        )
    if options.plot:
        _plot(systems, sources, references, options)
    if not others:
        return
    results = paired_bootstrap(
        systems, references, num_resamples=options.resamples, **how
    )
    print(f"\n{bootstrap_table(results)}")


def _tokenizer(options: argparse.Namespace) -> str:
    """Returns the name that `corpus_scores` has for the tokeniser."""
    if options.tokenizer == "moses":
        return f"moses-{options.language}"
    return options.tokenizer


def _check_tokenizer(options: argparse.Namespace) -> None:
    """Raises `InputError` unless language and tokeniser go together."""
    from relative_attention.evaluation import check_moses

    if (options.tokenizer == "moses") != (options.language is not None):
        raise InputError(
            "`--tokenizer moses` and `--language` go together: the code of "
            "the references' language, such as `de`. Received: --tokenizer "
            f"{options.tokenizer}, --language {options.language}."
        )
    if options.language is not None:
        check_moses(options.language)


def _name(models: Sequence[str]) -> str:
    """Returns what tables and pictures call the models that are evaluated."""
    return " + ".join(models)


def _write_columns(columns: Mapping[str, Sequence[float]], path: str) -> None:
    """Writes a header and a line for each sentence, with tabs between."""
    from relative_attention.files import atomic_file

    with atomic_file(path, "w") as file:
        file.write("\t".join(columns) + "\n")
        for row in zip(*columns.values()):
            file.write("\t".join(f"{value:.4f}" for value in row) + "\n")


def _plot(
    systems: Mapping[str, Sequence[str]],
    sources: Sequence[str],
    references: Sequence[str],
    options: argparse.Namespace,
) -> None:
    """Draws BLEU by length of the source, a line for each system."""
    from relative_attention.evaluation import bleu_by_length
    from relative_attention.plot import length_figure
    from relative_attention.plot import save_figure

    scores = {
        name: bleu_by_length(
            sources,
            hypotheses,
            references,
            lowercase=options.lowercase,
            tokenize=_tokenizer(options),
        )
        for name, hypotheses in systems.items()
    }
    save_figure(length_figure(scores), options.plot)


def _read(
    options: argparse.Namespace,
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Reads all that is given, and checks it before any work.

    Returns:
        A triple of the sources, the references, and a dict of the systems to
        compare with: lists of translations, or translators.
    """
    from relative_attention.data import ParallelCorpus
    from relative_attention.evaluation import check_bootstrap
    from relative_attention.plot import check_matplotlib

    for path in (options.hypotheses, options.sentence_scores, options.plot):
        check_output(path)
    if options.plot:
        check_matplotlib()
    _check_tokenizer(options)
    try:
        check_bootstrap(options.resamples)
    except ValueError as error:
        raise InputError(str(error)) from error
    corpus = ParallelCorpus(options.source, options.reference)
    corpus.check()
    sources, references = (list(side) for side in zip(*corpus))
    others: dict[str, Any] = {}
    for path in options.compare:
        if path in (_name(options.models), *others):
            raise InputError(
                f"`--compare {path}` is compared with itself. Give another "
                "model, or a file of translations."
            )
        others[path] = _other(path, options)
    return sources, references, others


def _other(path: str, options: argparse.Namespace) -> "Translator | list[str]":
    """Returns a translator, or the translations of a file."""
    from relative_attention.data import ParallelCorpus
    from relative_attention.data.lines import read_lines
    from relative_attention.zoo import find_file_or_model

    if find_file_or_model(path).is_dir():
        return translator_of(
            argparse.Namespace(**{**vars(options), "models": [path]}),
            more_names=("dtype",),
        )
    ParallelCorpus(path, options.reference).check()
    return list(read_lines(path))


def _translations(
    translator: "Translator", sources: Sequence[str]
) -> list["Translation"]:
    """Translates the sources, and reports how many were cut."""
    translations = translator.search(
        sources, report=lambda done: show_progress(done, len(sources))
    )
    report_cut(sum(t.was_cut for t in translations), translator)
    return translations
