"""Measures training: `relative-attention benchmark`."""

import argparse
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.cli import command

# Peaks of dense bfloat16 products by NVIDIA's data sheets, in 10^12 operations
# per second.
PEAK_TFLOPS = {"A100": 312, "H100": 989, "H200": 989}


def add_benchmark(subparsers: command.Subparsers) -> None:
    """Adds `benchmark` to the command line."""
    parser = command.add_command(
        subparsers,
        "benchmark",
        _benchmark,
        "measure how fast models train on this machine",
        "relative-attention benchmark --precision mixed_bfloat16 "
        "--presets transformer_big transformer_big_relative",
    )
    parser.text(
        "--presets NAME",
        "the others are compared with the first (default: the paper's base "
        "model without relative positions and with)",
        nargs="+",
        default=["transformer_base", "transformer_base_relative"],
    )
    parser.text(
        "--lengths T",
        "tokens per sentence (default: 32 128 512)",
        nargs="+",
        type=int,
        default=[32, 128, 512],
    )
    for name, default in (
        ("batch-tokens", 4096),
        ("vocabulary-size", 32768),
        ("steps", 5),
        ("rounds", 3),
    ):
        parser.integer(f"--{name} N", f"default: {default}", default=default)
    parser.text(
        "--precision NAME",
        "float32, mixed_bfloat16 or mixed_float16",
        choices=["float32", "mixed_bfloat16", "mixed_float16"],
        default="float32",
    )
    parser.number(
        "--peak-tflops N",
        "peak of the device in 10^12 operations per second, for its "
        "utilization (known for "
        f"{', '.join(PEAK_TFLOPS)} in bfloat16)",
    )


def _benchmark(options: argparse.Namespace) -> None:
    from relative_attention.cli.preset_speed import preset_speed
    from relative_attention.runs import report

    # It names the device, whose peak may be known.
    origin = report.provenance()
    rows = command.call(
        preset_speed,
        options,
        names=options.presets,
        num_steps=options.steps,
        num_rounds=options.rounds,
        report=report.print_error,
    )
    # Unknown for most devices; the column then says so.
    peak = options.peak_tflops or known_peak(
        origin["hardware"], options.precision
    )
    print(_table(rows, peak))
    print(
        f"\nTime over that of {options.presets[0]}; {options.precision}, "
        f"batches of {options.batch_tokens:,} tokens a side, "
        f"{options.vocabulary_size:,} pieces, median of {options.rounds} "
        f"rounds of {options.steps} steps. {report.provenance_sentence(origin)}"
    )


def _table(rows: Sequence[Mapping[str, Any]], peak: float | None) -> str:
    """Returns a Markdown table of what `preset_speed` measured."""
    cells = []
    for row in rows:
        tflops = row["flops_per_second"] / 1e12
        cells.append(
            [
                row["preset"],
                row["length"],
                f"{row['tokens_per_second']:,.0f}",
                f"{row['slowdown']:.3f}",
                f"{tflops:.3g}",
                f"{tflops / peak:.1%}" if peak else "unknown",
            ]
        )
    import tabulate

    return tabulate.tabulate(
        cells,
        ["preset", "tokens", "tokens/s", "time", "TFLOP/s", "utilization"],
        tablefmt="pipe",
        colalign=("left", *["right"] * 5),
        # Keeps "1.000" as it is.
        disable_numparse=True,
    )


def known_peak(hardware: str, precision: str) -> float | None:
    """Returns the peak of a known device in TFLOP/s, else `None`."""
    # The data sheets' numbers are for bfloat16 products alone.
    if precision != "mixed_bfloat16":
        return None
    return next(
        (peak for name, peak in PEAK_TFLOPS.items() if name in hardware), None
    )
