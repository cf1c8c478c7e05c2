"""Commands that show what there is: `list` and `plot`."""

import argparse
import pathlib
import shutil
import textwrap
from collections.abc import Sequence

from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError

# The width where there is no terminal, and the least width of a last column.
_COLUMNS = 100
_FEWEST_COLUMNS = 20


# === list ===


def add_list(subparsers: command.Subparsers) -> None:
    """Adds `list` to the command line."""
    parser = command.add_command(
        subparsers,
        "list",
        _list,
        "list recipes, with their results, studies and presets",
        "relative-attention list --parameters 32768",
    )
    parser.integer(
        "--parameters V",
        "also count each preset's parameters with a joint vocabulary of "
        "V pieces (builds every model; a minute)",
    )


def _list(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention import zoo
    from relative_attention.models import presets

    columns = ("recipe", "BLEU", "model", "what")
    _print_table(columns, [_recipe_row(name) for name in zoo.zoo_recipes()])
    print(
        "\nBLEU: on test text; model: what `translate` and the like take by "
        "name.\n"
    )
    studies = [
        (name, zoo.study_description(name)) for name in zoo.zoo_studies()
    ]
    _print_table(("study", "what"), studies)
    print()
    if options.parameters is None:
        _print_table(("preset",), [(name,) for name in presets()])
        return
    _print_table(
        ("preset", "parameters"),
        [
            (name, f"{_count_parameters(name, options.parameters):,}")
            for name in presets()
        ],
    )


def _recipe_row(name: str) -> tuple[str, ...]:
    """Returns name, BLEU, whether there are weights, and the description."""
    from relative_attention import zoo

    scores = zoo.scores_of_test_text(zoo.zoo_results(name))
    return (
        name,
        f"{scores['bleu']:.2f}" if scores else "",
        "yes" if name in zoo.zoo_models() else "",
        zoo.zoo_description(name),
    )


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints columns side by side, a line under their names.

    The last column is as wide as the terminal leaves it, in more lines if
    need be. `tabulate` does not fit a table to a width: it wants to be told
    that of the column, and widens others by rules of its own.
    """
    # Columns are two blanks apart.
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    total = shutil.get_terminal_size(fallback=(_COLUMNS, 24)).columns
    rest = total - sum(width + 2 for width in widths[:-1])
    widths[-1] = min(widths[-1], max(rest, _FEWEST_COLUMNS))
    for *cells, last in (columns, ["-" * width for width in widths], *rows):
        for part in textwrap.wrap(last, widths[-1]) or [""]:
            padded = [cell.ljust(w) for cell, w in zip([*cells, part], widths)]
            print("  ".join(padded).rstrip())
            cells = [""] * len(cells)


def _count_parameters(preset: str, vocabulary_size: int) -> int:
    """Builds a preset to count its parameters."""
    from relative_attention.models import Transformer

    try:
        model = Transformer.from_preset(preset, vocabulary_size)
    except ValueError as error:
        raise InputError(str(error)) from error
    return model.count_params()


# === plot ===


def add_plot(subparsers: command.Subparsers) -> None:
    """Adds `plot` to the command line."""
    parser = command.add_command(
        subparsers,
        "plot",
        _plot,
        "draw a run's training curves, also while it goes on; with a "
        "sentence, the model's attention and relation embeddings, too; or "
        "write a page to look inside the model with",
        "relative-attention plot runs/my_model --sentence 'A man sleeps.' "
        "--output view.html",
    )
    command.add_model(parser)
    parser.text("--sentence", "what to translate for the picture, or the page")
    parser.text(
        "--output DIR",
        "where curve.png and attention.png go (default: MODEL; for one "
        "of the zoo the working directory). A name that ends in .html is that "
        "of the page: attention by block and head, and what of it is content "
        "and what is position",
    )


def _plot(options: argparse.Namespace) -> None:
    """Runs the command."""
    if _is_page(options.output):
        _write_page(options)
        return
    from relative_attention.plot import model_picture
    from relative_attention.plot import training_curve
    from relative_attention.runs.report import load_curve
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
    streams.check_output(options.output)
    from relative_attention.plot import attention_view
    from relative_attention.saving import load_translator

    translator = load_translator(options.model_directory)
    view = attention_view(translator, options.sentence)
    view.save(options.output)
    print(view.translation)
    print(options.output)
