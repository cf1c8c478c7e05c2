"""Lists recipes, studies and presets: `relative-attention list`."""

import argparse
import shutil
import textwrap
from collections.abc import Sequence

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.errors import InputError

# The width where there is no terminal, and the least width of a last column.
_COLUMNS = 100
_FEWEST_COLUMNS = 20


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "list",
        _run,
        "list recipes, with their results, studies and presets",
        "relative-attention list --parameters 32768",
    )
    parser.add_argument(
        "--parameters",
        metavar="V",
        type=int,
        help="also count each preset's parameters with a joint vocabulary of "
        "V pieces (builds every model; a minute)",
    )
    parser.set_defaults(needs_keras=lambda o: o.parameters is not None)


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.models import presets
    from relative_attention.zoo import study_description
    from relative_attention.zoo import zoo_recipes
    from relative_attention.zoo import zoo_studies

    columns = ("recipe", "BLEU", "model", "what")
    _print_table(columns, [_recipe_row(name) for name in zoo_recipes()])
    print(
        "\nBLEU: on test text; model: what `translate` and the like take by "
        "name.\n"
    )
    studies = [(name, study_description(name)) for name in zoo_studies()]
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
    from relative_attention.zoo import scores_of_test_text
    from relative_attention.zoo import zoo_description
    from relative_attention.zoo import zoo_models
    from relative_attention.zoo import zoo_results

    scores = scores_of_test_text(zoo_results(name))
    return (
        name,
        f"{scores['bleu']:.2f}" if scores else "",
        "yes" if name in zoo_models() else "",
        zoo_description(name),
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
