"""`relative-attention train`."""

import pathlib

from relative_attention.cli.command import add_command


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "train",
        _run,
        "train the model of a recipe and score it",
        "relative-attention train two_files_small_relative "
        "data.source=my.en data.target=my.de",
    )
    parser.add_argument(
        "recipe", help="name of a recipe (see `list`), or a YAML file"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="section.key=value",
        help="values of the recipe to replace",
    )
    parser.add_argument("--output", metavar="DIR", help="default: runs/RECIPE")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where the recipe's text files are "
        "(default: $RELATIVE_ATTENTION_DATA)",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--resume", action="store_true", help="go on with the run in DIR"
    )
    either.add_argument(
        "--overwrite", action="store_true", help="delete the run in DIR first"
    )


def _run(options):
    from relative_attention import experiments

    recipe = experiments.find_recipe(options.recipe)
    recipe = recipe.override(options.overrides)
    output = options.output or pathlib.Path("runs", recipe.name)
    results = experiments.train(
        recipe,
        output,
        data_directory=options.data,
        resume=options.resume,
        overwrite=options.overwrite,
    )
    for name, scores in results["scores"].items():
        print(f"{name}: BLEU {scores['bleu']} ({scores['bleu_signature']})")
    print(f"model: {output}")
