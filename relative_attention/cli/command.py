"""How a command is added to the command line."""

import argparse


def add_command(subparsers, name, run, help, example):
    """A parser for the command `name`, which calls `run(options)`."""
    parser = subparsers.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_model_directory(parser):
    """The first argument of what a trained model is needed for."""
    parser.add_argument(
        "model_directory",
        metavar="MODEL",
        help="the folder that `train` filled, or the name of a trained model "
        "of the zoo (`relative-attention list`)",
    )
