"""Converts from it: `relative-attention convert tensor2tensor`."""

import argparse

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "tensor2tensor",
        _run,
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


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.convert import convert_tensor2tensor

    def print_summary(line: str) -> None:
        # The names of the variables are many; they are in conversion.txt.
        if not line.startswith(" "):
            print(line)

    convert_tensor2tensor(
        options.checkpoint,
        options.hparams,
        options.output,
        vocabulary=options.vocabulary,
        source_vocabulary=options.source_vocabulary,
        target_space_id=options.target_space_id,
        report=print_summary,
    )
    print(f"model: {options.output} (every variable: conversion.txt there)")
