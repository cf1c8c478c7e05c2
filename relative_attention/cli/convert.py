"""Converts models of other systems: `relative-attention convert`."""

import argparse

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command

_POSITIONS = (
    "auto",
    "relative",
    "sinusoidal",
    "learned",
    "relative+sinusoidal",
    "none",
)


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = subparsers.add_parser(
        "convert",
        help="bring a model of another system here",
        description="Bring a model of another system here.",
    )
    systems = parser.add_subparsers(
        dest="system", required=True, metavar="SYSTEM"
    )
    _add_opennmt_tf(systems)
    _add_tensor2tensor(systems)


def _add_opennmt_tf(systems: Subparsers) -> None:
    parser = add_command(
        systems,
        "opennmt-tf",
        _run_opennmt_tf,
        "convert a checkpoint of OpenNMT-tf's Transformer",
        "relative-attention convert opennmt-tf run/ckpt-5000 "
        "--source-vocabulary en.vocab --target-vocabulary de.vocab "
        "--output runs/converted",
    )
    parser.add_argument(
        "checkpoint", help="its prefix (run/ckpt-5000), or its folder"
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-vocabulary",
            metavar="F",
            required=True,
            help=f"the vocabulary file of the {side}, a token a line",
        )
    parser.add_argument("--output", metavar="DIR", required=True)
    parser.add_argument(
        "--tokenizer",
        metavar="F",
        help="the SentencePiece model that makes the tokens; without it, text "
        "is read and written as tokens with blanks between",
    )
    parser.add_argument(
        "--source-tokenizer",
        metavar="F",
        help="that of the source, where it has its own",
    )
    parser.add_argument(
        "--source-start",
        action="store_true",
        help="the run had `source_sequence_controls: {start: true}`",
    )
    parser.add_argument(
        "--source-end",
        action="store_true",
        help="the run had `source_sequence_controls: {end: true}`",
    )
    parser.add_argument(
        "--num-heads",
        metavar="N",
        type=int,
        help="only needed for a model without relative positions",
    )
    parser.add_argument(
        "--positions",
        choices=_POSITIONS,
        default="auto",
        help="the positions, where the checkpoint does not show them "
        "(default: auto, as it shows)",
    )


def _run_opennmt_tf(options: argparse.Namespace) -> None:
    from relative_attention.convert import convert_opennmt_tf

    convert_opennmt_tf(
        options.checkpoint,
        options.output,
        options.source_vocabulary,
        options.target_vocabulary,
        tokenizer=options.tokenizer,
        source_tokenizer=options.source_tokenizer,
        source_start=options.source_start,
        source_end=options.source_end,
        num_heads=options.num_heads,
        position_encoding=(
            None if options.positions == "none" else options.positions
        ),
        report=_print_summary,
    )
    print(f"model: {options.output} (every variable: conversion.txt there)")


def _add_tensor2tensor(systems: Subparsers) -> None:
    parser = add_command(
        systems,
        "tensor2tensor",
        _run_tensor2tensor,
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


def _run_tensor2tensor(options: argparse.Namespace) -> None:
    from relative_attention.convert import convert_tensor2tensor

    convert_tensor2tensor(
        options.checkpoint,
        options.hparams,
        options.output,
        vocabulary=options.vocabulary,
        source_vocabulary=options.source_vocabulary,
        target_space_id=options.target_space_id,
        report=_print_summary,
    )
    print(f"model: {options.output} (every variable: conversion.txt there)")


def _print_summary(line: str) -> None:
    # The names of all variables are in conversion.txt.
    if not line.startswith(" "):
        print(line)
