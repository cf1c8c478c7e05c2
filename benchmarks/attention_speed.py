"""What relative positions cost an attention layer, in time and in memory.

Times each way to compute `RelativeSelfAttention`, the layer without relative
positions, and `keras.layers.MultiHeadAttention`, over lengths and clipping
distances, and prints, stores and draws the ratios. From the root of a
checkout, with the package and its extra `plot` installed:

    python benchmarks/attention_speed.py --output benchmarks/attention_speed

Each is a process of its own; those of a length and distance live at once and
take turns, and a ratio is that of turns which followed one another. A turn
calls the forward pass, and then forward and backward pass (gradients of the
inputs and of every weight, as one compiled function), as often as goes into
`--seconds`, at least once. The table shows both: relations weigh more in the
forward pass alone, that of inference. Peak memory is what the largest resident
set of the process is above that before the first pass, as the system counts
it.

With `KERAS_BACKEND=jax` it runs on the first device of JAX; memory of a GPU
is not counted.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import sys
import tempfile

import report
import turns

_KERAS, _PLAIN, _TRANSPOSE = "keras", "none", "transpose"
_NAMES = {
    _KERAS: "keras.layers.MultiHeadAttention",
    _PLAIN: "no relative positions",
    _TRANSPOSE: '"transpose" (tensor2tensor)',
    "blocks": '"blocks"',
    "auto": '"auto"',
}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="example:\n  python benchmarks/attention_speed.py --lengths 64 "
        "512 --distances 16 --output benchmarks/attention_speed",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--lengths",
        type=int,
        nargs="+",
        default=[32, 64, 128, 256, 512, 1024, 2048, 4096],
    )
    add("--distances", type=int, nargs="+", default=[8, 16, 64], metavar="K")
    add(
        "--implementations",
        nargs="+",
        default=[_TRANSPOSE, "blocks", "auto"],
        choices=[_TRANSPOSE, "blocks", "auto"],
    )
    add(
        "--longest-transpose",
        type=int,
        default=2048,
        metavar="T",
        help='lengths beyond are left out for "transpose", which at 4,096 '
        "takes 20 GB (default: 2048)",
    )
    add("--batch-tokens", type=int, default=2048)
    add("--num-heads", type=int, default=8)
    add("--key-dim", type=int, default=64)
    add("--dtype", default="float32")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=0.5)
    add(
        "--output",
        metavar="PREFIX",
        help="also write PREFIX.json and PREFIX.png",
    )
    return parser.parse_args()


def main():
    options = parse_arguments()
    cases = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for length in options.lengths:
                for distance in options.distances:
                    cases.append(
                        measure(length, distance, options, pathlib.Path(folder))
                    )
    except turns.ContestantError as error:
        sys.exit(f"error: {error}")
    from relative_attention.runs.provenance import provenance
    from relative_attention.runs.provenance import provenance_sentence

    origin = provenance()
    print(f"\n{table(cases)}\n")
    print(
        f"Hidden {options.num_heads * options.key_dim}, {options.num_heads} "
        f"heads, {options.batch_tokens:,} tokens a batch (at least one "
        f"sentence), {options.dtype}; median of {options.rounds} rounds "
        "(least to greatest). " + provenance_sentence(origin)
    )
    if options.output:
        path = pathlib.Path(options.output)
        del options.output
        content = {"options": vars(options), "origin": origin, "cases": cases}
        path.with_suffix(".json").write_text(json.dumps(content, indent=1))
        draw(cases, path.with_suffix(".png"))


def measure(length, distance, options, folder):
    """All rounds of one length and clipping distance."""
    kinds = [_KERAS, _PLAIN]
    for kind in options.implementations:
        if kind != _TRANSPOSE or length <= options.longest_transpose:
            kinds.append(kind)
    windows = collections.defaultdict(list)
    contestants, peaks = {}, {}
    try:
        for kind in kinds:
            arguments = {
                "kind": kind,
                "batch_size": max(1, options.batch_tokens // length),
                "length": length,
                "num_heads": options.num_heads,
                "key_dim": options.key_dim,
                "max_relative_position": distance,
                "dtype": options.dtype,
                "seconds": options.seconds,
            }
            script = pathlib.Path(__file__).with_name("attention_contestant.py")
            contestants[kind] = turns.Contestant(
                [sys.executable, str(script), json.dumps(arguments)],
                {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
                folder / f"{kind}.log",
            )
        for number in range(options.rounds + 1):
            for kind in kinds:
                report.progress(
                    f"length {length}, K {distance}, round {number} of "
                    f"{options.rounds}: {kind}"
                )
                window = contestants[kind].take_turn()
                if number:  # The first makes graphs.
                    windows[kind].append(window)
            # There and back: a steady drift then favours nobody.
            kinds.reverse()
        for kind, contestant in contestants.items():
            before = windows[kind][0]["memory_before"]
            peaks[kind] = contestant.finish() - before
    finally:
        for contestant in contestants.values():
            contestant.kill()
    report.progress()
    result = {
        "length": length,
        "max_relative_position": distance,
        "contestants": {
            kind: _summary(windows, peaks, kind) for kind in contestants
        },
    }
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def _summary(windows, peaks, kind):
    summary = {
        name: statistics.median(window[name] for window in windows[kind])
        for name in ("forward", "backward")
    }
    summary["peak_memory"] = peaks[kind]
    for other in (_KERAS, _PLAIN, _TRANSPOSE):
        if other in peaks:
            summary[f"ratios_to_{other}"] = {
                name: [
                    mine[name] / theirs[name]
                    for mine, theirs in zip(windows[kind], windows[other])
                ]
                for name in ("forward", "backward")
            }
            summary[f"memory_to_{other}"] = peaks[kind] / peaks[other]
    return summary


def table(cases):
    rows = []
    for case in cases:
        for kind, summary in case["contestants"].items():
            forward, backward = (
                [
                    report.spread(found[name]) if found else ""
                    for found in (
                        summary.get(f"ratios_to_{other}")
                        for other in (_KERAS, _PLAIN, _TRANSPOSE)
                    )
                ]
                for name in ("forward", "backward")
            )
            rows.append(
                [
                    f"T {case['length']:,}, K {case['max_relative_position']}: "
                    + _NAMES[kind],
                    f"{summary['forward']:,.1f} ms",
                    *forward,
                    f"{summary['backward']:,.1f} ms",
                    *backward,
                    f"{summary['peak_memory'] / 1e6:,.0f} MB",
                    f"{summary[f'memory_to_{_PLAIN}']:.2f}",
                ]
            )
    header = [
        "layer",
        "forward alone",
        "ratio to Keras'",
        "to no relative positions",
        'to "transpose"',
        "forward + backward",
        "ratio to Keras'",
        "to no relative positions",
        'to "transpose"',
        "peak memory",
        "to no relative positions",
    ]
    return report.markdown_table(header, rows)


def draw(cases, path):
    """Time of forward and backward pass by length, over Keras' layer."""
    import matplotlib.figure

    distances = sorted({case["max_relative_position"] for case in cases})
    figure = matplotlib.figure.Figure(
        figsize=(4 * len(distances), 3.5), layout="constrained"
    )
    axes = figure.subplots(1, len(distances), sharey=True, squeeze=False)[0]
    for axis, distance in zip(axes, distances):
        lines = collections.defaultdict(list)
        for case in cases:
            if case["max_relative_position"] == distance:
                for kind, summary in case["contestants"].items():
                    ratios = summary[f"ratios_to_{_KERAS}"]["backward"]
                    lines[kind].append(
                        (case["length"], statistics.median(ratios))
                    )
        for kind, points in lines.items():
            axis.plot(*zip(*sorted(points)), marker="o", label=_NAMES[kind])
        axis.set(
            title=f"K = {distance}", xlabel="tokens", xscale="log", yscale="log"
        )
        lengths = sorted({case["length"] for case in cases})
        axis.set_xticks(lengths, map(str, lengths))
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("time, forward and backward,\nover Keras' layer")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
