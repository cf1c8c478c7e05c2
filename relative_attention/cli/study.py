"""Compares recipes over several seeds: `relative-attention study`."""

import argparse
from collections.abc import Callable
from typing import NoReturn

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_data_folder
from relative_attention.cli.train import is_override


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "study",
        _run,
        "train what is missing of a study, recipes that are compared over "
        "several seeds, and write its table and picture",
        "relative-attention study table1 --data DIR --jobs 2\n"
        "  relative-attention study table1 --list",
    )
    parser.usage = (
        "relative-attention study [options] STUDY [section.key=value ...]"
    )
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="STUDY",
        help="name of a study (see `list`), or a YAML file; after it, values "
        "to replace in all recipes (section.key=value)",
    )
    add_data_folder(parser)
    parser.add_argument(
        "--output", metavar="DIR", help="the runs' folder (default: runs/STUDY)"
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="JSON of all finished runs, which are not run again; the table "
        "(.md) and the picture (.png) are written beside it (default: "
        "STUDY.json beside a study that comes with a checkout, else in "
        "--output)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="how many runs to train at a time (default: 1)",
    )
    parser.add_argument(
        "--rows",
        metavar="A,B",
        help="names of the rows to train (default: all)",
    )
    parser.add_argument(
        "--seeds", metavar="1,2", help="seeds to train with (default: all)"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="only list the runs: what is done, what it cost, what is left",
    )
    parser.set_defaults(settle=_settle)


def _settle(
    options: argparse.Namespace,
    words: list[str],
    error: Callable[[str], NoReturn],
) -> None:
    """Tells the study and the overrides apart; see `train`."""
    names = [word for word in words if not is_override(word)]
    if len(names) != 1:
        error(
            "one STUDY is needed (`relative-attention list` shows those that "
            f"come with the package). Received: {' '.join(names) or 'none'}"
        )
    options.study = names[0]
    options.overrides = [word for word in words if is_override(word)]
    options.rows = None if options.rows is None else options.rows.split(",")
    try:
        if options.seeds is not None:
            options.seeds = [int(seed) for seed in options.seeds.split(",")]
    except ValueError:
        error(
            "--seeds must be whole numbers with commas between them. "
            f"Received: {options.seeds}"
        )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention import studies

    study = studies.find_study(options.study).override(options.overrides)
    results = studies.results_path(study, options.output, options.results)
    chosen = options.rows, options.seeds
    if options.list:
        print(studies.study_list(study, options.output, results, *chosen))
        return
    studies.run_study(
        study, options.output, options.data, results, options.jobs, *chosen
    )
    page, picture = (results.with_suffix(end) for end in (".md", ".png"))
    print(page.read_text("utf-8"))
    print(f"results: {results}\ntable: {page}")
    if picture.is_file():
        print(f"picture: {picture}")
