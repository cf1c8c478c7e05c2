"""Converts from OpenNMT-tf: `relative-attention convert opennmt-tf`."""

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
    parser = add_command(
        subparsers,
        "opennmt-tf",
        _run,
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
        "must come as tokens with blanks between, and so does a translation",
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
        help="needed for a model without relative positions only",
    )
    parser.add_argument(
        "--positions",
        choices=_POSITIONS,
        default="auto",
        help="the positions, where the checkpoint does not show them "
        "(default: auto, as it shows)",
    )


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from relative_attention.convert import convert_opennmt_tf

    def print_summary(line: str) -> None:
        # The names of the variables are many; they are in conversion.txt.
        if not line.startswith(" "):
            print(line)

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
        report=print_summary,
    )
    print(f"model: {options.output} (every variable: conversion.txt there)")
