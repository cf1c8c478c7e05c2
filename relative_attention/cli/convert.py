"""Commands that make new models: `average`, `export`, `convert`."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

import relative_attention as ra
from relative_attention.cli import command
from relative_attention.cli import streams
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.zoo import find_model

# The options of each format. CTranslate2's search is set at each call.
_OPTIONS_OF = {
    "saved_model": (
        *command.DECODING_OPTIONS,
        "nbest",
        "dtype",
        "token_ids_only",
        "warmup",
    ),
    "ctranslate2": ("quantization",),
    "keras_hub": ("num_beams", "length_penalty"),
    "model": ("num_beams", "length_penalty", "dtype"),
}


# === average ===


def add_average(subparsers: command.Subparsers) -> None:
    """Adds `average` to the command line."""
    parser = command.add_command(
        subparsers,
        "average",
        _average,
        "write the mean of a run's last checkpoints as a new model",
        "relative-attention average runs/my_model --last 20 "
        "--output runs/averaged",
    )
    command.add_module(parser)
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="RUN_OR_FILE",
        help="the folder of a run; or .safetensors files, or trained models",
    )
    parser.integer(
        "--last N",
        "how many checkpoints of the run (default: all that it has kept)",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--output",
        metavar="FILE",
        help="of a run, a folder for the new model (default: RUN_average_N), "
        "or a .safetensors file for its weights only; of files, a .safetensors "
        "file",
    )
    either.add_argument(
        "--in-place",
        action="store_true",
        help=(
            "replace the run's model.safetensors, and delete the results.json "
            "of the weights before; best.safetensors is kept"
        ),
    )


def _average(options: argparse.Namespace) -> None:
    from relative_attention.runs import average

    first, *others = options.paths
    # One path may be a run or a file; several are files, or models.
    is_run = not others and not os.path.isfile(first)
    if not is_run and (options.last is not None or options.in_place):
        raise InputError(
            "`--last` and `--in-place` are for the checkpoints of one run. "
            f"Received: {' '.join(options.paths)}. For several files give "
            "`--output`."
        )
    # A folder is checked where it is made.
    if options.output is not None and options.output.endswith(".safetensors"):
        streams.check_output(options.output)
    # A mean may be worse than the best weights; both losses are told.
    losses = None
    if is_run:
        output = average.average_run(
            first, options.last, options.output, options.in_place
        )
        # In place, or for a file, `output` is the weights themselves.
        files = [output / "model.safetensors" if output.is_dir() else output]
        best = find_model(first) / "best.safetensors"
        if best.is_file():
            losses = average.validation_losses(first, [*files, best])
    else:
        output = average.average_files(options.paths, options.output)
    # Weights alone do not translate.
    kind = "weights" if output.is_file() else "model"
    print(f"{kind}: {output}")
    if losses is not None:
        print(
            f"validation loss: {losses[0]:.4f}, of the run's best weights "
            f"{losses[1]:.4f}",
            file=sys.stderr,
        )


# === export ===


def add_export(subparsers: command.Subparsers) -> None:
    """Adds `export` to the command line."""
    parser = command.add_command(
        subparsers,
        "export",
        _export,
        "write a model for TensorFlow Serving, CTranslate2 or KerasHub, or a "
        "smaller model directory",
        "relative-attention export runs/my_model --format saved_model "
        "exported/1",
        "relative-attention export [options] --format F MODEL [MODEL ...] "
        "OUTPUT",
    )
    command.add_module(parser)
    parser.positional(
        "models",
        "MODEL OUTPUT",
        f"{command.MODEL}, and the folder to make. saved_model: several "
        "models with the same vocabulary become one that averages their "
        "probabilities",
        nargs="+",
        sort=_sort_export_words,
    )
    parser.text(
        "--format",
        "what the folder is for",
        required=True,
        choices=tuple(_OPTIONS_OF),
    )
    command.add_decoding_options(parser)
    parser.integer(
        "--nbest N",
        "saved_model: number of translations of the signature n_best "
        "(default: the number of beams)",
    )
    parser.text(
        "--dtype",
        "saved_model, model: dtype of the stored weights (default: float32)",
        choices=("float32", "float16"),
    )
    parser.flag(
        "--token-ids-only", "saved_model: leave out the signatures on strings"
    )
    parser.text(
        "--warmup FILE",
        "saved_model: a text whose lines TensorFlow Serving translates "
        "before it accepts requests",
    )
    parser.text(
        "--quantization Q",
        "ctranslate2: int8, int16, float16, ... (default: float32)",
    )


def _sort_export_words(options: argparse.Namespace) -> None:
    if len(options.models) < 2:
        raise command.UsageError(
            "export needs a MODEL and the OUTPUT folder to make"
        )
    # The last word is what is made, as in `cp`.
    options.output = options.models.pop()


@command.input_errors()
def _export(options: argparse.Namespace) -> None:
    from relative_attention.data.lines import read_lines

    # An option that a format ignores would be believed to work.
    _check_format(options)
    # Loading a model takes long: what can be refused is refused before.
    check_is_free(options.output)
    warmup = list(read_lines(options.warmup)) if options.warmup else ()
    # `--dtype` is for the output.
    translator = command.load_models(options, names=command.DECODING_OPTIONS)
    # Only the model knows its beams, if they are not given.
    command.check_nbest(options.nbest, translator.num_beams)
    output, dtype = options.output, options.dtype or "float32"
    if options.format == "saved_model":
        ra.export_saved_model(
            translator,
            output,
            dtype=dtype,
            num_results=options.nbest,
            token_ids_only=options.token_ids_only,
            warmup=warmup,
        )
    elif options.format == "ctranslate2":
        ra.export_ctranslate2(
            translator, output, quantization=options.quantization
        )
    elif options.format == "model":
        ra.save_translator(translator, output, dtype=dtype)
    else:
        # KerasHub is only imported for its own format.
        task = ra.hub.TranslationLM.from_translator(translator)
        with atomic_directory(output) as folder:
            task.save_to_preset(folder)
    print(f"{options.format}: {output}")


def _check_format(options: argparse.Namespace) -> None:
    """Refuses models and options that the format cannot use."""
    allowed = _OPTIONS_OF[options.format]
    if len(options.models) > 1 and options.format != "saved_model":
        raise InputError(
            f"The format {options.format} takes one model; saved_model takes "
            "several, and `relative-attention distill` trains one from them. "
            f"Received: {', '.join(options.models)}."
        )
    for name in sorted(set().union(*_OPTIONS_OF.values()).difference(allowed)):
        # Absent is `None`, or `False` for a flag; 0 counts as given.
        value = getattr(options, name)
        if value is not None and value is not False:
            spelled = ", ".join(map(command.spelled, allowed))
            raise InputError(
                f"{command.spelled(name)} does not apply to the format "
                f"{options.format}, which takes {spelled}."
            )


# === convert ===


def add_convert(subparsers: command.Subparsers) -> None:
    """Adds `convert` to the command line."""
    parser = subparsers.add_parser(
        "convert",
        help="convert a model of another system",
        description="Convert a model of another system.",
    )
    systems = parser.add_subparsers(
        dest="system", required=True, metavar="SYSTEM"
    )
    _add_opennmt_tf(systems)
    _add_tensor2tensor(systems)


def _add_opennmt_tf(systems: command.Subparsers) -> None:
    parser = command.add_command(
        systems,
        "opennmt-tf",
        _convert,
        "convert a checkpoint of OpenNMT-tf's Transformer",
        "relative-attention convert opennmt-tf run/ckpt-5000 "
        "--source-vocabulary en.vocab --target-vocabulary de.vocab "
        "--output runs/converted",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="its prefix (run/ckpt-5000), or its folder",
    )
    for side in ("source", "target"):
        parser.text(
            f"--{side}-vocabulary FILE",
            f"the vocabulary file of the {side}, one token per line",
            required=True,
        )
    parser.text("--output DIR", "the folder to write", required=True)
    parser.text(
        "--tokenizer FILE",
        "the SentencePiece model of the tokens; without it, text is read and "
        "written as tokens with blanks between",
    )
    parser.text(
        "--source-tokenizer FILE", "that of the source, if it has its own"
    )
    parser.flag(
        "--source-start",
        "the run had `source_sequence_controls: {start: true}`",
    )
    parser.flag(
        "--source-end", "the run had `source_sequence_controls: {end: true}`"
    )
    parser.integer(
        "--num-heads N", "only needed for a model without relative positions"
    )
    parser.text(
        "--positions NAME",
        "the positions, if the checkpoint does not show them: relative, "
        "sinusoidal, learned, relative+sinusoidal or none (default: auto, "
        "read from the checkpoint)",
        choices=(
            "auto",
            "relative",
            "sinusoidal",
            "learned",
            "relative+sinusoidal",
            "none",
        ),
        default="auto",
        dest="position_encoding",
    )


def _add_tensor2tensor(systems: command.Subparsers) -> None:
    parser = command.add_command(
        systems,
        "tensor2tensor",
        _convert,
        "convert a checkpoint of tensor2tensor's Transformer",
        "relative-attention convert tensor2tensor model.ckpt-250000 "
        "--hparams hparams.json --vocabulary vocab.translate.32768.subwords "
        "--output runs/converted",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="its prefix (model.ckpt-250000), or its folder",
    )
    parser.text(
        "--hparams FILE",
        "the hparams.json that tensor2tensor wrote beside it",
        required=True,
    )
    parser.text("--output DIR", "the folder to write", required=True)
    parser.text(
        "--vocabulary FILE",
        "the *.subwords file of the target, or of both languages; "
        "without it the model cannot translate strings",
    )
    parser.text(
        "--source-vocabulary FILE",
        "the *.subwords file of the source, if it has its own",
    )
    parser.integer(
        "--target-space-id N",
        "the problem's target space (default: 0)",
        default=0,
    )


def _convert(options: argparse.Namespace) -> None:
    from relative_attention import convert

    def report(line: str) -> None:
        # The names of all variables are in conversion.txt.
        if not line.startswith(" "):
            print(line)

    # Both take the options that their parameters name.
    function: Callable[..., Any] = convert.convert_tensor2tensor
    # `--positions none` is no position encoding, `None` for the function.
    if options.system == "opennmt-tf":
        function = convert.convert_opennmt_tf
        if options.position_encoding == "none":
            options.position_encoding = None
    path = options.checkpoint
    command.call(function, options, checkpoint_path=path, report=report)
    print(f"model: {options.output} (every variable: conversion.txt there)")
