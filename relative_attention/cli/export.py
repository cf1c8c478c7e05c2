"""Exports a model: `relative-attention export`."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import NoReturn

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.cli.decoding_options import DECODING_OPTIONS
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import check_nbest
from relative_attention.cli.decoding_options import translator_of
from relative_attention.errors import InputError

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

# Each format takes these options; a model of CTranslate2 is told at each call
# how to search.
_OPTIONS_OF = {
    "saved_model": (
        *DECODING_OPTIONS,
        "nbest",
        "dtype",
        "token_ids_only",
        "warmup",
    ),
    "ctranslate2": ("quantization",),
    "keras_hub": ("num_beams", "length_penalty"),
    "model": ("num_beams", "length_penalty", "dtype"),
}


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "export",
        _run,
        "write a model for TensorFlow Serving, CTranslate2 or KerasHub, or a "
        "smaller model directory",
        "relative-attention export runs/my_model --format saved_model "
        "exported/1",
    )
    parser.usage = (
        "relative-attention export [options] --format F MODEL [MODEL ...] "
        "OUTPUT"
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="MODEL OUTPUT",
        help="the folder that `train` filled, or the name of a trained model "
        "of the zoo (`relative-attention list`), and the folder to make; "
        "saved_model: several models with the same vocabulary, before it, "
        "become one that averages their probabilities",
    )
    parser.set_defaults(settle=_settle)
    parser.add_argument("--format", required=True, choices=tuple(_OPTIONS_OF))
    add_decoding_options(parser)
    parser.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="saved_model: translations of the signature n_best (default: as "
        "many as beams)",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        help="saved_model, model: what weights are stored as (default: "
        "float32)",
    )
    parser.add_argument(
        "--token-ids-only",
        action="store_true",
        help="saved_model: leave out the signatures on strings",
    )
    parser.add_argument(
        "--warmup",
        metavar="F",
        help="saved_model: a text of which TensorFlow Serving translates each "
        "line before it takes requests",
    )
    parser.add_argument(
        "--quantization",
        metavar="Q",
        help="ctranslate2: int8, int16, float16, ... (default: float32)",
    )


def _settle(
    options: argparse.Namespace,
    words: list[str],
    error: Callable[[str], NoReturn],
) -> None:
    """Tells the models from the folder to make, which comes last."""
    if len(words) < 2:
        error("export needs a MODEL and the OUTPUT folder to make")
    *options.models, options.output = words


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    _check_options(options)
    translator = translator_of(options)
    export = {
        "saved_model": _export_saved_model,
        "ctranslate2": _export_ctranslate2,
        "keras_hub": _export_keras_hub,
        "model": _export_model,
    }[options.format]
    try:
        export(translator, options)
    except ValueError as error:
        raise InputError(str(error)) from error
    print(f"{options.format}: {options.output}")


def _check_options(options: argparse.Namespace) -> None:
    """Refuses options that the format chosen would leave unused."""
    allowed = _OPTIONS_OF[options.format]
    if len(options.models) > 1 and options.format != "saved_model":
        raise InputError(
            f"A model of the format {options.format} is one model; saved_model "
            "takes several, and `relative-attention distill` makes one of "
            f"them. Received: {', '.join(options.models)}."
        )
    for names in _OPTIONS_OF.values():
        for name in names:
            # Absent is `None`, or `False` for a flag; 0 is given.
            given = getattr(options, name)
            if name not in allowed and given is not None and given is not False:
                spelled = ", ".join(f"--{n.replace('_', '-')}" for n in allowed)
                raise InputError(
                    f"--{name.replace('_', '-')} says nothing to a model of "
                    f"the format {options.format}, which takes {spelled}."
                )


def _export_saved_model(
    translator: "Translator", options: argparse.Namespace
) -> None:
    """Exports a SavedModel."""
    from relative_attention.data.lines import read_lines
    from relative_attention.export import export_saved_model

    if options.nbest is not None:
        check_nbest(options.nbest, translator.num_beams)
    export_saved_model(
        translator,
        options.output,
        dtype=options.dtype or "float32",
        num_results=options.nbest,
        token_ids_only=options.token_ids_only,
        warmup=list(read_lines(options.warmup)) if options.warmup else (),
    )


def _export_ctranslate2(
    translator: "Translator", options: argparse.Namespace
) -> None:
    """Exports a model of CTranslate2."""
    from relative_attention.export import export_ctranslate2

    export_ctranslate2(
        translator, options.output, quantization=options.quantization
    )


def _export_keras_hub(
    translator: "Translator", options: argparse.Namespace
) -> None:
    """Writes a preset of KerasHub."""
    from relative_attention.files import atomic_directory
    from relative_attention.files import check_is_free
    from relative_attention.hub import TranslationLM

    check_is_free(options.output)
    task = TranslationLM.from_translator(translator)
    with atomic_directory(options.output) as folder:
        task.save_to_preset(folder)


def _export_model(
    translator: "Translator", options: argparse.Namespace
) -> None:
    """Writes a model directory."""
    from relative_attention.saving import save_translator

    save_translator(
        translator, options.output, dtype=options.dtype or "float32"
    )
