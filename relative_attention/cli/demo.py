"""`relative-attention demo`."""

from relative_attention.cli.command import add_command


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "demo",
        _run,
        "make a small corpus, train on it and translate, in a few minutes",
        "relative-attention demo --languages en fr",
    )
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="section.key=value",
        help="values of the recipe to replace",
    )
    parser.add_argument("--output", metavar="DIR", default="runs/demo")
    parser.add_argument(
        "--languages",
        nargs=2,
        default=("en", "de"),
        choices=("en", "de", "fr"),
        help="source and target (default: en de)",
    )
    parser.set_defaults(settle=_settle)


def _settle(options, words, error):
    options.overrides = words


def _run(options):
    from relative_attention.runs.demo import run_demo

    run_demo(options.output, tuple(options.languages), options.overrides)
