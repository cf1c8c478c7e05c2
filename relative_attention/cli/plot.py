"""`relative-attention plot`."""

import pathlib

from relative_attention.cli.command import add_command


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "plot",
        _run,
        "draw a model's training curve, attention and relation embeddings",
        "relative-attention plot runs/my_model --sentence 'A man sleeps.'",
    )
    parser.add_argument("model_directory", help="what `train` filled")
    parser.add_argument(
        "--sentence", required=True, help="what to translate for the picture"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where curve.png and attention.png go (default: MODEL_DIRECTORY)",
    )


def _run(options):
    from relative_attention.experiments import load_translator
    from relative_attention.experiments.results import load_results
    from relative_attention.plot import model_picture
    from relative_attention.plot import training_curve

    output = pathlib.Path(options.output or options.model_directory)
    results = load_results(options.model_directory)
    translator = load_translator(options.model_directory)
    training_curve(results["curve"], output / "curve.png")
    print(model_picture(translator, options.sentence, output / "attention.png"))
    print(f"{output / 'curve.png'}\n{output / 'attention.png'}")
