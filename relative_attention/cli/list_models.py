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
    from relative_attention.experiments.zoo import find_recipe
    from relative_attention.experiments.zoo import zoo_recipes
    from relative_attention.experiments.zoo import zoo_results
    from relative_attention.models import presets

    print("recipes:")
    for name in zoo_recipes():
        print(f"  {name}\n    {find_recipe(name).description}")
        for part, scores in zoo_results(name).get("scores", {}).items():
            print(f"    {part}: BLEU {scores['bleu']}")
    print("presets (`model.preset`):")
    for name in presets():
        if options.parameters is None:
            print(f"  {name}")
        else:
            count = _count_parameters(name, options.parameters)
            print(f"  {name} {count:,}")


def _count_parameters(preset, vocabulary_size):
    from relative_attention.models import Transformer

    try:
        model = Transformer.from_preset(preset, vocabulary_size)
    except ValueError as error:
        raise InputError(str(error)) from error
    return model.count_params()
