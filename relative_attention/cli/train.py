"""Commands that train: `demo`, `data`, `train`, `study` and `distill`.

_train
  ra.train  the run (`runs/run.py`)
"""

import argparse
import os
import pathlib
import re
import shlex
import signal
import threading
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import relative_attention as ra
from relative_attention.cli import command
from relative_attention.cli import streams

# The names in `corpora.wmt14`; importing it for `--help` would be slow.
_CORPORA = ("wmt14_en_de", "wmt14_en_fr")
# Items between two times that progress is shown.
_WATCHED = 10_000
_OVERRIDE = re.compile(r"\w+\.\w+=")


def _is_override(word: str) -> bool:
    """Returns whether a word is `section.key=value`, and not a file."""
    # A file may have such a name, and is a recipe then.
    return bool(_OVERRIDE.match(word)) and not os.path.exists(word)


def _take_name(options: argparse.Namespace) -> str | None:
    """Removes the name of a recipe or a study from the overrides.

    Further names stay, and `override` refuses them.
    """
    for word in options.overrides:
        if not _is_override(word):
            options.overrides.remove(word)
            return word
    return None


def _print_results(results: Mapping[str, Any], folder: object) -> None:
    for name, scores in results["scores"].items():
        # The signature says how it was computed: without it no two can be
        # compared.
        print(f"{name}: BLEU {scores['bleu']} ({scores['bleu_signature']})")
    print(f"model: {folder}")


# === demo ===


def add_demo(subparsers: command.Subparsers) -> None:
    """Adds `demo` to the command line."""
    parser = command.add_command(
        subparsers,
        "demo",
        _demo,
        "generate a small corpus, train on it and translate, in a few minutes",
        "relative-attention demo --languages en fr",
    )
    parser.positional(
        "overrides", "section.key=value", "values of the recipe to replace"
    )
    parser.text("--output DIR", "the folder to write", default="runs/demo")
    parser.text(
        "--languages",
        "source and target (default: en de)",
        nargs=2,
        default=("en", "de"),
        choices=("en", "de", "fr"),
    )


def _demo(options: argparse.Namespace) -> None:
    # It imports Keras, which `--help` must not wait for.
    from relative_attention.cli.demo import run_demo

    run_demo(options.output, tuple(options.languages), options.overrides)


# === data ===


def add_data(subparsers: command.Subparsers) -> None:
    """Adds `data` to the command line."""
    parser = subparsers.add_parser(
        "data",
        help="get a corpus, or prepare your own",
        description="Get a corpus, or prepare your own.",
    )
    kinds = parser.add_subparsers(dest="corpus", required=True, metavar="WHAT")
    for corpus in _CORPORA:
        _add_wmt14(kinds, corpus)
    _add_pairs(kinds)
    _add_variants(kinds)


def _add_wmt14(kinds: command.Subparsers, corpus: str) -> None:
    parser = command.add_command(
        kinds,
        corpus,
        _wmt14,
        "get a corpus of the paper, on a machine with internet; needs the "
        "extra `wmt`",
        f"relative-attention data {corpus}",
    )
    parser.text(
        "--output DIR",
        f"default: the folder {corpus} in $RELATIVE_ATTENTION_DATA, or else in "
        "data",
    )


def _wmt14(options: argparse.Namespace) -> None:
    from relative_attention.corpora.wmt14 import fetch_wmt14
    from relative_attention.runs.report import print_error

    output = options.output or pathlib.Path(_data_folder(), options.corpus)
    # Progress goes to standard error, so that a script can read the folder.
    print(f"corpus: {fetch_wmt14(options.corpus, output, print_error)}")


def _data_folder() -> str:
    from relative_attention.runs.texts import DATA_VARIABLE

    return os.environ.get(DATA_VARIABLE) or "data"


def _add_pairs(kinds: command.Subparsers) -> None:
    parser = command.add_command(
        kinds,
        "pairs",
        _pairs,
        "clean pairs of sentences, and split them into train, val and test",
        "relative-attention data pairs spa-eng.zip --languages en es "
        "--output spanish",
    )
    parser.positional(
        "files",
        "FILE",
        "pairs in .tsv or .txt (columns with tabs), .csv or .tmx; or two "
        "texts, line by line. Each may be compressed (.gz, .bz2, .xz) or in an "
        "archive: archive.zip/FILE, or archive.zip if it holds a single file",
        nargs="+",
    )
    parser.text("--output DIR", "a new folder for the texts", required=True)
    parser.text(
        "--languages L",
        "of source and target, the endings of the texts (default: source "
        "target); which languages of a .tmx",
        nargs=2,
    )
    parser.text(
        "--columns C",
        "source and target: their numbers, or their names in the first row "
        "(default: 1 2)",
        nargs=2,
    )
    parser.text(
        "--delimiter C",
        "what separates columns (default: a comma in .csv, else a tab)",
    )
    parser.flag("--keep-equal", "keep pairs whose sides are equal")
    parser.integer(
        "--max-words N",
        "the most words of a side; in scripts without blanks each character "
        "is a word",
        default=80,
    )
    parser.number(
        "--max-ratio R",
        "how many times the words of a side the other one may have",
        default=9,
    )
    for part, meaning in (("val", "validation"), ("test", "test")):
        parser.integer(
            f"--{part} N",
            f"{meaning} pairs, a tenth of all pairs at most (default: 2000)",
        )
    parser.integer("--seed N", "seed of the split (default: 1)")
    parser.text(
        "--split-as MODEL",
        "hold out the pairs that a bundled model held out, such as "
        "tatoeba_en_de, of an archive of www.manythings.org/anki",
    )


@command.input_errors()
def _pairs(options: argparse.Namespace) -> None:
    from relative_attention.corpora.pairs import write_pairs

    report = command.call(write_pairs, options, watch=_watched)
    print(f"{report}\ntexts: {options.output}")
    keys = {"train": "", "val": "validation_", "test": "test_"}
    words = [
        f"data.{keys[part]}{side}={pathlib.Path(options.output, name)}"
        for part, names in report.files.items()
        for side, name in zip(("source", "target"), names)
    ]
    print(
        f"to train: relative-attention train small_relative {shlex.join(words)}"
    )


def _watched(items: Iterable[Any], total: int | None) -> Iterator[Any]:
    """Yields items, and shows how many were there."""
    progress = streams.Progress(total)
    for number, item in enumerate(items, start=1):
        yield item
        if number % _WATCHED == 0:
            progress(number)
    progress.end()


def _add_variants(kinds: command.Subparsers) -> None:
    parser = command.add_command(
        kinds,
        "variants",
        _variants,
        "add lines to a training text from which a model learns to copy names, "
        "numbers and links, and to read other spellings",
        "relative-attention data variants --source my.en --target my.de "
        "--output with_variants",
    )
    parser.text("--source FILE", "the text to translate", required=True)
    parser.text("--target FILE", "its translation, line by line", required=True)
    parser.text(
        "--output DIR",
        "a new folder for the two texts with variants, which keep their names",
        required=True,
    )
    parser.number("--share S", "variants per line (default: 0.3)", default=0.3)
    parser.integer("--seed N", "default: 1", default=1)


def _variants(options: argparse.Namespace) -> None:
    from relative_attention.corpora import variants
    from relative_attention.data import ParallelCorpus

    # A wrong `--share` is an argument of a function there.
    with command.input_errors():
        counts = variants.write_variants(
            ParallelCorpus(options.source, options.target),
            options.output,
            options.share,
            options.seed,
        )
    print(f"variants: {variants.describe_counts(counts)}")
    print(f"texts: {options.output}")


# === train ===


def add_train(subparsers: command.Subparsers) -> None:
    """Adds `train` to the command line."""
    parser = command.add_command(
        subparsers,
        "train",
        _train,
        "train the model of a recipe and score it, or resume a run",
        "relative-attention train small_relative "
        "data.source=my.en data.target=my.de\n"
        "  relative-attention train --resume runs/small_relative "
        "training.epochs=40",
        "relative-attention train [options] RECIPE [section.key=value ...]\n"
        "       relative-attention train [options] --resume DIR "
        "[section.key=value ...]",
    )
    parser.positional(
        "overrides",
        "RECIPE",
        "name of a recipe (see `list`), or a YAML file, or a folder with "
        "a recipe.yaml; after it, or after --resume DIR, values of the recipe "
        "to replace (section.key=value)",
        sort=_sort_train_words,
    )
    parser.text("--output DIR", "default: runs/RECIPE")
    command.add_data_folder(parser)
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--resume",
        nargs="?",
        const=True,
        default=False,
        metavar="DIR",
        help="resume the run in DIR with its recipe and data, or with a RECIPE "
        "the run in --output; --resume=auto starts a run where there is none",
    )
    either.add_argument(
        "--overwrite",
        action="store_true",
        help="delete the run in --output first",
    )


def _sort_train_words(options: argparse.Namespace) -> None:
    """Separates the recipe, the run to resume and the overrides."""
    # `True` is `--resume` without a value.
    names_run = isinstance(options.resume, str) and options.resume != "auto"
    if names_run and (
        _is_override(options.resume)
        or (options.output and not options.overrides)
    ):
        # argparse took the next argument for the value of --resume.
        # It goes first, as a recipe comes before its overrides.
        options.overrides.insert(0, options.resume)
        names_run, options.resume = False, True
    options.recipe = _take_name(options)
    if names_run:
        if options.output not in (None, options.resume):
            raise command.UsageError(
                "--resume DIR and --output DIR name two folders: "
                f"{options.resume} and {options.output}"
            )
        options.output = options.resume
        # A run that is resumed without a recipe uses its own.
        options.recipe = options.recipe or options.resume
        options.resume = True
    if options.recipe is None:
        raise command.UsageError(
            "a RECIPE is needed (`relative-attention list` shows those that "
            "come with the package), or --resume DIR"
        )
    # The recipe may be the folder of the run.
    # Otherwise `runs/RECIPE` would be resumed.
    if options.resume and options.output is None:
        if os.path.isdir(options.recipe):
            options.output = options.recipe


def _train(options: argparse.Namespace) -> None:
    from relative_attention import runs

    if options.output and options.resume:
        # Before searching for its recipe.
        runs.check_resume(options.output, options.resume)
    recipe = ra.find_recipe(options.recipe).override(options.overrides)
    # An interrupt names the folder.
    options.output = options.output or pathlib.Path("runs", recipe.name)
    results = command.call(ra.train, options, recipe=recipe)
    _print_results(results, options.output)


# === study ===


def add_study(subparsers: command.Subparsers) -> None:
    """Adds `study` to the command line."""
    parser = command.add_command(
        subparsers,
        "study",
        _study,
        "train the missing runs of a study, which compares recipes over "
        "several seeds, and write its table and picture",
        "relative-attention study table1 --data DIR --jobs 2\n"
        "  relative-attention study table1 --list",
        "relative-attention study [options] STUDY [section.key=value ...]",
    )
    parser.positional(
        "overrides",
        "STUDY",
        "name of a study (see `list`), or a YAML file; after it, values "
        "to replace in all recipes (section.key=value)",
        sort=_sort_study_words,
    )
    command.add_data_folder(parser)
    parser.text("--output DIR", "the runs' folder (default: runs/STUDY)")
    parser.text(
        "--results FILE",
        "JSON of all finished runs, which are not run again; the table "
        "(.md) and the picture (.png) are written next to it (default: "
        "STUDY.json, in a checkout next to a study of the package, else in "
        "--output)",
    )
    parser.integer(
        "--jobs N", "how many runs to train at a time (default: 1)", default=1
    )
    parser.text(
        "--rows A,B",
        "names of the rows to train (default: all)",
        type=lambda text: text.split(","),
    )
    parser.text(
        "--seeds 1,2", "seeds to train with (default: all)", type=_seeds
    )
    parser.flag(
        "--list", "only list the runs: those done, their cost, and those left"
    )


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"must be whole numbers with commas between them. Received: {text}"
        ) from error


def _sort_study_words(options: argparse.Namespace) -> None:
    options.study = _take_name(options)
    if options.study is None:
        raise command.UsageError(
            "one STUDY is needed (`relative-attention list` shows those that "
            "come with the package)"
        )


def stop_with_parent() -> None:
    """Lets this process save and end, as on SIGTERM, if its parent is killed.

    Standard input must be a pipe from the parent, which writes nothing to it. A
    study starts its runs in this way, so that no run continues without it.
    """

    def wait() -> None:
        os.read(0, 1)
        # Its handler saves a checkpoint before the process ends.
        signal.raise_signal(signal.SIGTERM)

    # A daemon: a finished run must not wait for its parent.
    threading.Thread(target=wait, daemon=True).start()


def _study(options: argparse.Namespace) -> None:
    from relative_attention import studies

    study = studies.find_study(options.study).override(options.overrides)
    # The page and the picture stand next to this file.
    results = studies.results_path(study, options.output, options.results)
    given = {"study": study, "results": results}
    if options.list:
        print(command.call(studies.study_list, options, **given))
        return
    command.call(studies.run_study, options, num_jobs=options.jobs, **given)
    page, picture = (results.with_suffix(end) for end in (".md", ".png"))
    print(page.read_text("utf-8"))
    print(f"results: {results}\ntable: {page}")
    # Without matplotlib, or a finished run, there is none.
    if picture.is_file():
        print(f"picture: {picture}")


# === distill ===


def add_distill(subparsers: command.Subparsers) -> None:
    """Adds `distill` to the command line."""
    parser = command.add_command(
        subparsers,
        "distill",
        _distill,
        "train a model on a corpus and on translations of its lines, as they "
        "are, by other models; rerun the same command to resume",
        "relative-attention distill small_relative --teachers runs/a runs/b "
        "--output runs/student data.source=my.en data.target=my.de",
        "relative-attention distill [options] RECIPE --teachers MODEL "
        "[MODEL ...]\n    [--backward MODEL ...] [section.key=value ...]",
    )
    parser.positional(
        "overrides",
        "RECIPE",
        "the student's recipe, as for `train`; after it, values of the recipe "
        "to replace (section.key=value)",
        sort=_sort_distill_words,
    )
    parser.text(
        "--teachers MODEL",
        "trained models with the same vocabulary, which the student gets; "
        "MODEL@TEXT: this teacher reads TEXT, a line-aligned version of the "
        "corpus in a third language",
        nargs="+",
        required=True,
    )
    parser.text(
        "--backward MODEL",
        "models of the other direction, which translate the recipe's target "
        "into its source",
        nargs="+",
        default=[],
    )
    parser.flag(
        "--separately",
        "each teacher translates all lines alone, and the student learns "
        "from all translations; vocabularies may then differ, and the student "
        "gets the first one",
    )
    parser.text("--output DIR", "default: runs/RECIPE_distilled")
    command.add_data_folder(parser)
    parser.integer(
        "--num-beams N", "beams of all teachers (default: the first teacher's)"
    )
    parser.integer(
        "--closest-of N",
        "learn, of the N most probable translations of each line, the one "
        "closest to the recipe's target by sentence BLEU, instead of the most "
        "probable (N is at most the number of beams)",
    )
    parser.integer(
        "--batch-tokens N",
        "most source tokens, over all beams, translated at a time; fewer "
        "need less memory (default: 8192)",
    )
    parser.flag(
        "--overwrite", "delete the run in --output first, and its translations"
    )


def _sort_distill_words(options: argparse.Namespace) -> None:
    """Separates the recipe, the teachers and the overrides."""
    options.recipe = _take_name(options)
    # argparse treats all words after `--teachers` or `--backward` as models.
    for models in (options.teachers, options.backward):
        options.overrides += filter(_is_override, models)
        # In place, as the options hold these lists.
        models[:] = [name for name in models if not _is_override(name)]
    if options.recipe is None:
        raise command.UsageError("a RECIPE is needed, before --teachers")
    if not options.teachers:
        raise command.UsageError("--teachers needs at least one trained MODEL")


def _distill(options: argparse.Namespace) -> None:
    recipe = ra.find_recipe(options.recipe).override(options.overrides)
    output = options.output or pathlib.Path("runs", f"{recipe.name}_distilled")
    results = command.call(ra.distill, options, recipe=recipe, output=output)
    _print_results(results, output)
