"""Averages checkpoints: `relative-attention average`."""

import argparse
import os

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.output_file import check_output
from relative_attention.errors import InputError


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "average",
        _run,
        "write the mean of a run's last checkpoints as a model of its own",
        "relative-attention average runs/my_model --last 20 "
        "--output runs/averaged",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="RUN_OR_FILE",
        help="what `train` filled; or .safetensors files, or trained models",
    )
    parser.add_argument(
        "--last",
        type=int,
        metavar="N",
        help="how many checkpoints of the run (default: all that it has kept)",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--output",
        metavar="DIR_OR_F",
        help="a folder for a model to translate with (default: "
        "RUN_average_N), or a .safetensors file for the weights alone",
    )
    either.add_argument(
        "--in-place",
        action="store_true",
        help="replace the run's model.safetensors; best.safetensors is kept",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.saving import average_files
    from relative_attention.saving import average_run

    first, *others = options.paths
    is_run = not others and not os.path.isfile(first)
    if not is_run and (options.last is not None or options.in_place):
        raise InputError(
            "`--last` and `--in-place` are for the checkpoints of one run. "
            f"Received: {' '.join(options.paths)}. For several files give "
            "`--output`."
        )
    if options.output is not None and options.output.endswith(".safetensors"):
        check_output(options.output)
    if is_run:
        output = average_run(
            first, options.last, options.output, options.in_place
        )
    else:
        output = average_files(options.paths, options.output)
    kind = "weights" if output.is_file() else "model"
    print(f"{kind}: {output}")
