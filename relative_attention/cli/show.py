"""Commands that show recipes and models: `list` and `plot`."""

import argparse
import pathlib
import shutil
import textwrap
from collections.abc import Sequence

import relative_attention as ra
from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError

# The width without a terminal, and the least width of a last column.
_COLUMNS = 100
_FEWEST_COLUMNS = 20


# === list ===


def add_list(subparsers: command.Subparsers) -> None:
    """Adds `list` to the command line."""
    parser = command.add_command(
        subparsers,
        "list",
        _list,
        "list bundled models, with their licenses, recipes, studies and "
        "presets",
        "relative-attention list --parameters 32768",
    )
    parser.integer(
        "--parameters V",
        "also count each preset's parameters with a joint vocabulary of "
        "V pieces (builds every model; a minute)",
    )


@command.input_errors()
def _list(options: argparse.Namespace) -> None:
    from relative_attention import zoo

    models = []
    for name in zoo.zoo_models():
        bleu = zoo.scores_of_test_text(zoo.zoo_results(name))["bleu"]
        about = (zoo.zoo_license(name), f"{bleu:.2f}")
        models.append((name, *about, zoo.zoo_description(name)))
    _print_table(("model", "license", "BLEU", "what"), models)
    print(
        "\n`translate` and the like take these names. license: of the "
        f"weights;\n`{zoo.RESEARCH}` is for non-commercial research and "
        "education only. BLEU: of each\non its own test text.\n"
    )
    names = [n for n in zoo.zoo_recipes() if n not in zoo.zoo_models()]
    recipes = [(name, zoo.zoo_description(name)) for name in names]
    _print_table(("recipe", "what"), recipes)
    print("\n`train` takes these names, and those of models.\n")
    studies = [(n, zoo.study_description(n)) for n in zoo.zoo_studies()]
    _print_table(("study", "what"), studies)
    print()
    # Counting builds each model, which takes a minute.
    if options.parameters is None:
        _print_table(("preset",), [(name,) for name in ra.presets()])
        print("\n`model.preset` of a recipe takes these names.")
        return
    rows = []
    for name in ra.presets():
        model = ra.Transformer.from_preset(name, options.parameters)
        rows.append((name, f"{model.count_params():,}"))
    _print_table(("preset", "parameters"), rows)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table whose last column is as wide as the terminal allows."""
    total = shutil.get_terminal_size(fallback=(_COLUMNS, 24)).columns
    *widths, last = (max(map(len, column)) for column in zip(columns, *rows))
    # Columns are two blanks apart.
    rest = total - sum(width + 2 for width in widths)
    widths.append(min(last, max(rest, _FEWEST_COLUMNS)))
    for *cells, text in (columns, ["-" * width for width in widths], *rows):
        for line in textwrap.wrap(text, widths[-1]):
            shown = (f"{cell:{width}}" for cell, width in zip(cells, widths))
            print("  ".join([*shown, line]))
            cells = [""] * len(cells)


# === plot ===


def add_plot(subparsers: command.Subparsers) -> None:
    """Adds `plot` to the command line."""
    parser = command.add_command(
        subparsers,
        "plot",
        _plot,
        "draw a run's training curves, also while it trains; with a "
        "sentence, also the model's attention and relation embeddings, or a "
        "page to look inside the model",
        "relative-attention plot runs/my_model --sentence 'A man sleeps.' "
        "--output view.html",
    )
    command.add_module(parser)
    parser.add_argument("model_directory", metavar="MODEL", help=command.MODEL)
    parser.text("--sentence", "what to translate for the picture, or the page")
    parser.text(
        "--output DIR",
        "folder for curve.png and attention.png (default: MODEL; for a "
        "bundled model, the working directory). A name that ends in "
        ".html is the page of the attention view: attention by block and "
        "head, split into content and position",
    )


@command.input_errors()
def _plot(options: argparse.Namespace) -> None:
    if _is_page(options.output):
        _write_page(options)
        return
    from relative_attention.runs.report import load_curve

    output = pathlib.Path(options.output or options.model_directory)
    # A bundled model is given by its name, which is no folder here.
    if options.output is None and not output.is_dir():
        output = pathlib.Path()
    # A run without a curve is refused before its model is loaded.
    curve = load_curve(options.model_directory)
    pictures = [output / "curve.png"]
    if options.sentence is not None:
        translator = ra.load_translator(options.model_directory)
        pictures.append(output / "attention.png")
        print(ra.plot.model_picture(translator, options.sentence, pictures[1]))
    ra.plot.training_curve(curve, pictures[0])
    print(*pictures, sep="\n")


def _is_page(output: str | None) -> bool:
    return (
        output is not None
        and output.lower().endswith((".html", ".htm"))
        # A folder is a folder, whatever its name.
        and not pathlib.Path(output).is_dir()
    )


def _write_page(options: argparse.Namespace) -> None:
    """Writes the attention view of a sentence."""
    if options.sentence is None:
        raise InputError(
            f"A page ({options.output}) shows one sentence: give --sentence. "
            "For training curves, --output must be a folder."
        )
    # Before loading and translating, which take longest.
    streams.check_output(options.output)
    translator = ra.load_translator(options.model_directory)
    view = ra.plot.attention_view(translator, options.sentence)
    view.save(options.output)
    print(view.translation, options.output, sep="\n")
