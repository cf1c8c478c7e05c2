"""Draws a run: `relative-attention plot`."""

import argparse
import pathlib

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_model_directory


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "plot",
        _run,
        "draw a run's training curves, also while it goes on; with a "
        "sentence, the model's attention and relation embeddings, too",
        "relative-attention plot runs/my_model --sentence 'A man sleeps.'",
    )
    add_model_directory(parser)
    parser.add_argument(
        "--sentence", help="what to translate for the picture of attention"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where curve.png and attention.png go (default: MODEL; for one "
        "of the zoo the working directory)",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.plot import model_picture
    from relative_attention.plot import training_curve
    from relative_attention.runs.run_curve import load_curve
    from relative_attention.saving import load_translator

    output = pathlib.Path(options.output or options.model_directory)
    if options.output is None and not output.is_dir():
        output = pathlib.Path()
    curve = load_curve(options.model_directory)
    pictures = [output / "curve.png"]
    if options.sentence is not None:
        translator = load_translator(options.model_directory)
        pictures.append(output / "attention.png")
        print(model_picture(translator, options.sentence, pictures[1]))
    training_curve(curve, pictures[0])
    for picture in pictures:
        print(picture)
