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
