"""Draws a run, or looks inside a model: `relative-attention plot`."""

import argparse
import pathlib

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.command import add_model_directory
from relative_attention.cli.output_file import check_output
from relative_attention.errors import InputError


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "plot",
        _run,
        "draw a run's training curves, also while it goes on; with a "
        "sentence, the model's attention and relation embeddings, too; or "
        "write a page to look inside the model with",
        "relative-attention plot runs/my_model --sentence 'A man sleeps.' "
        "--output view.html",
    )
    add_model_directory(parser)
    parser.add_argument(
        "--sentence", help="what to translate for the picture, or the page"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where curve.png and attention.png go (default: MODEL; for one "
        "of the zoo the working directory). A name that ends in .html is that "
        "of the page: attention by block and head, and what of it is content "
        "and what is position",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    if _is_page(options.output):
        _write_page(options)
        return
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


def _is_page(output: str | None) -> bool:
    return (
        output is not None
        and output.lower().endswith((".html", ".htm"))
        and not pathlib.Path(output).is_dir()
    )


def _write_page(options: argparse.Namespace) -> None:
    """Writes the attention view of a sentence."""
    if options.sentence is None:
        raise InputError(
            f"A page ({options.output}) shows one sentence: give --sentence. "
            "For training curves, --output must be a folder."
        )
    check_output(options.output)
    from relative_attention.plot import attention_view
    from relative_attention.saving import load_translator

    translator = load_translator(options.model_directory)
    view = attention_view(translator, options.sentence)
    view.save(options.output)
    print(view.translation)
    print(options.output)
