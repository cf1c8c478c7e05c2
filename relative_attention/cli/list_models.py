"""`relative-attention list`."""

from relative_attention.cli.command import add_command
from relative_attention.errors import InputError


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "list",
        _run,
        "list recipes, with their results, and presets",
        "relative-attention list --parameters 32768",
    )
    parser.add_argument(
        "--parameters",
        metavar="V",
        type=int,
        help="also count each preset's parameters with a joint vocabulary of "
        "V pieces (builds every model; a minute)",
    )


def _run(options):
    from relative_attention.experiments.zoo import zoo_recipes
    from relative_attention.models import presets

    columns = ("recipe", "BLEU", "model", "what")
    _print_table(columns, [_recipe_row(name) for name in zoo_recipes()])
    print(
        "\nBLEU: on test text; model: what `translate` and the like take by "
        "name.\n"
    )
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


def _recipe_row(name):
    from relative_attention.experiments.zoo import find_recipe
    from relative_attention.experiments.zoo import zoo_models
    from relative_attention.experiments.zoo import zoo_results

    scores = zoo_results(name).get("scores", {}).get("test", {})
    return (
        name,
        f"{scores['bleu']:.2f}" if scores else "",
        "yes" if name in zoo_models() else "",
        find_recipe(name).description,
    )


def _print_table(columns, rows):
    """Columns side by side, a line under their names."""
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    for cells in (columns, ["-" * width for width in widths], *rows):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths)]
        print("  ".join(padded).rstrip())


def _count_parameters(preset, vocabulary_size):
    from relative_attention.models import Transformer

    try:
        model = Transformer.from_preset(preset, vocabulary_size)
    except ValueError as error:
        raise InputError(str(error)) from error
    return model.count_params()
