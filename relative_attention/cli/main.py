"""Reads the command line; every command is a function of the package."""

import argparse
import os
import sys

from relative_attention.cli import commands
from relative_attention.errors import InputError
from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.version import __version__


def main(arguments=None):
    """Run one command; the exit status is returned.

    0: done. 1: something given is wrong, and a line on standard error says
    what. 130: interrupted.
    """
    options = _parse(arguments)
    try:
        load_tensorflow_quietly()
        options.run(options)
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # Whoever read has seen enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error}. Nothing that was complete has been lost.")
    except KeyboardInterrupt:
        hint = " Go on with `--resume`." if options.command == "train" else ""
        print(f"\nInterrupted.{hint}", file=sys.stderr)
        return 130
    return 0


def _parse(arguments):
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    # argparse takes a list of positional arguments in one piece only; here
    # options may stand between the recipe and what overrides it.
    if rest and (
        not hasattr(options, "overrides")
        or any(argument.startswith("-") for argument in rest)
    ):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


def _fail(message):
    print(f"relative-attention: {message}", file=sys.stderr)
    return 1


def _parser():
    parser = argparse.ArgumentParser(
        prog="relative-attention",
        description="Translation models with relative position "
        "representations.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    for add in (
        _add_demo,
        _add_train,
        _add_translate,
        _add_evaluate,
        _add_plot,
        _add_convert,
        _add_list,
    ):
        add(subparsers)
    return parser


def _add(subparsers, name, run, help, example):
    parser = subparsers.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_demo(subparsers):
    parser = _add(
        subparsers,
        "demo",
        commands.demo,
        "make a small corpus, train on it and translate, in a few minutes",
        "relative-attention demo --languages en fr",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="section.key=value",
        help="values of the recipe to replace",
    )
    parser.add_argument("--output", metavar="DIR", default="runs/demo")
    parser.add_argument(
        "--languages",
        nargs=2,
        default=("en", "de"),
        choices=("en", "de", "fr"),
        help="source and target (default: en de)",
    )


def _add_train(subparsers):
    parser = _add(
        subparsers,
        "train",
        commands.train,
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


def _add_translate(subparsers):
    parser = _add(
        subparsers,
        "translate",
        commands.translate,
        "translate standard input, line by line, to standard output",
        "relative-attention translate runs/my_model < source > hypotheses",
    )
    parser.add_argument("model_directory", help="what `train` filled")
    _add_decoding(parser)


def _add_evaluate(subparsers):
    parser = _add(
        subparsers,
        "evaluate",
        commands.evaluate,
        "translate a text and print BLEU with sacreBLEU's signature",
        "relative-attention evaluate runs/my_model --source test.en "
        "--reference test.de",
    )
    parser.add_argument("model_directory", help="what `train` filled")
    parser.add_argument("--source", metavar="F", required=True)
    parser.add_argument("--reference", metavar="F", required=True)
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    parser.add_argument(
        "--hypotheses", metavar="F", help="also write the translations here"
    )
    _add_decoding(parser)


def _add_decoding(parser):
    parser.add_argument(
        "--num-beams", type=int, metavar="N", help="default: the recipe's"
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="default: the recipe's",
    )


def _add_plot(subparsers):
    parser = _add(
        subparsers,
        "plot",
        commands.plot,
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


def _add_convert(subparsers):
    parser = subparsers.add_parser(
        "convert",
        help="bring a model of another system here",
        description="Bring a model of another system here.",
    )
    systems = parser.add_subparsers(
        dest="system", required=True, metavar="SYSTEM"
    )
    _add_convert_tensor2tensor(systems)


def _add_convert_tensor2tensor(subparsers):
    parser = _add(
        subparsers,
        "tensor2tensor",
        commands.convert_tensor2tensor,
        "convert a checkpoint of tensor2tensor's Transformer",
        "relative-attention convert tensor2tensor model.ckpt-250000 "
        "--hparams hparams.json --vocabulary vocab.translate.32768.subwords "
        "--output runs/converted",
    )
    parser.add_argument(
        "checkpoint", help="its prefix (model.ckpt-250000), or its folder"
    )
    parser.add_argument(
        "--hparams",
        metavar="F",
        required=True,
        help="the hparams.json that tensor2tensor wrote beside it",
    )
    parser.add_argument("--output", metavar="DIR", required=True)
    parser.add_argument(
        "--vocabulary",
        metavar="F",
        help="the *.subwords file of the target, or of both languages; "
        "without it the model cannot translate strings",
    )
    parser.add_argument(
        "--source-vocabulary",
        metavar="F",
        help="the *.subwords file of the source, where it has its own",
    )
    parser.add_argument(
        "--target-space-id",
        metavar="N",
        type=int,
        default=0,
        help="the problem's target space (default: 0)",
    )


def _add_list(subparsers):
    parser = _add(
        subparsers,
        "list",
        commands.list_recipes,
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
