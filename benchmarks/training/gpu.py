r"""How fast a GPU trains the paper's models, and what relative positions cost.

The base and the big model take the step that `relative-attention train` takes
on JAX, with sinusoidal positions and with relative ones: time, memory, and the
share of the device's peak.

    KERAS_BACKEND=jax python -m benchmarks.training.gpu

It needs no TensorFlow, and the package need not be installed. All that is
imported comes with

    pip install "jax[cuda12]" keras pyyaml sacrebleu safetensors sentencepiece \
        tabulate wrapt

Sentences are made up, as long as those of text, and padded to a few lengths.
Batches lie on the device already, and nothing is read between two steps.

The two models of a size are on the device together and take turns on the same
batch; a ratio is that of turns of the same round. Tokens are those of both
sides without padding, and so are the operations (`training_flops`). Memory is
what the compiler planned for a step, with weights, optimizer and batch. "all"
is an epoch, in which each shape comes as often as the corpus has it. The
program begins no shape after `--minutes`; one may compile for minutes.
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence

import keras

import relative_attention as ra
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_float
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.round_robin import round_robin
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table
from benchmarks.training.jax_training import JaxTraining
from benchmarks.training.jax_training import make_model
from benchmarks.training.made_up_batches import ShapedBatch
from benchmarks.training.made_up_batches import make_batches
from relative_attention.cli.benchmark import known_peak
from relative_attention.models import training_flops
from relative_attention.runs.cluster import is_out_of_memory
from relative_attention.runs.report import provenance

_RELATIVE = "{}_relative"
_LONGEST_REASON = 80


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser(
        "training.gpu",
        __doc__,
        "--presets transformer_base --batch-tokens 8192",
        result_name="training_gpu",
    )
    add = parser.add_argument
    add(
        "--presets",
        nargs="+",
        default=["transformer_base", "transformer_big"],
        choices=[
            n for n in ra.presets() if _RELATIVE.format(n) in ra.presets()
        ],
        metavar="NAME",
        help="each is compared with NAME_relative (default: transformer_base "
        "transformer_big)",
    )
    for name, default, help_text in (
        ("batch-tokens", 25000, "padded tokens of a batch on each side"),
        ("vocabulary-size", 32768, "of the one vocabulary of both sides"),
        ("max-length", 100, "tokens; longer pairs are left out"),
        ("shapes", 3, "of batches, each of which is compiled"),
        ("pairs", 100000, "of the made-up corpus"),
        ("steps", 10, "of a turn"),
        ("rounds", 5, "of turns, after one that does not count"),
    ):
        add(
            f"--{name}",
            type=positive_int,
            default=default,
            metavar="N",
            help=f"{help_text} (default: {default})",
        )
    add("--dtype", default="mixed_bfloat16")
    add("--minutes", type=positive_float, default=4.5)
    add(
        "--peak-tflops",
        type=positive_float,
        metavar="N",
        help="10^12 operations a second that the device can do (default: "
        "known of some devices)",
    )
    add(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="keys of a recipe's `model` and `training`, as `train` takes them",
    )
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Measures all models on batches of all shapes.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each shape and model, and of one of all shapes;
        one that cannot be measured has a `"reason"` in place of figures.
    """
    end = time.monotonic() + 60 * options.minutes
    hardware = provenance()["hardware"]
    peak = options.peak_tflops or known_peak(hardware, options.dtype)
    batches = make_batches(
        options.batch_tokens,
        options.vocabulary_size,
        options.max_length,
        options.shapes,
        options.pairs,
    )
    rows: list[Row] = []
    for preset in options.presets:
        names = [preset, _RELATIVE.format(preset)]
        shapes = []
        for batch in batches:
            has_time = time.monotonic() < end
            shapes.append(
                _measure_shape(names, batch, options)
                if has_time
                else [_row(name, batch, reason="no time") for name in names]
            )
            # What has been compiled is referred to in circles.
            gc.collect()
        shapes.append(_all_shapes(shapes))
        for of_shape in shapes:
            rows += _compared(of_shape, preset, peak)
    return rows


def _measure_shape(
    names: Sequence[str], batch: ShapedBatch, options: argparse.Namespace
) -> list[Row]:
    """Measures the models, in turns, on batches of one shape."""
    title = f"batch {batch.shape[0]} x {batch.shape[1]}, "
    trainings: dict[str, JaxTraining] = {}
    reasons: dict[str, str] = {}
    for name in names:
        show_progress(f"{title}compiles: {name}")
        try:
            training = JaxTraining(
                make_model(
                    name, options.vocabulary_size, options.dtype, options.set
                ),
                batch,
            )
            training.take_steps(1)
        except RuntimeError as error:
            reasons[name] = _reason(error)
        else:
            trainings[name] = training

    def turn(name: str) -> float:
        start = time.perf_counter()
        trainings[name].take_steps(options.steps)
        return (time.perf_counter() - start) / options.steps

    seconds = round_robin(list(trainings), turn, options.rounds, title=title)
    return [
        _row(name, batch, reason=reasons[name])
        if name in reasons
        else _row(
            name,
            batch,
            seconds=seconds[name],
            memory_bytes=trainings[name].memory_bytes,
            flops=_flops(trainings[name].config, batch),
        )
        for name in names
    ]


def _reason(error: Exception) -> str:
    """Returns why a model cannot be measured; JAX's errors go on for pages."""
    line = str(error).partition("\n")[0][:_LONGEST_REASON]
    return f"does not fit: {line}" if is_out_of_memory(error) else line


def _flops(config: "ra.TransformerConfig", batch: ShapedBatch) -> int:
    """Returns the operations of a step, those of padding left out."""
    return sum(
        training_flops(config, source, target)
        for source, target in batch.sentence_lengths.tolist()
    )


def _row(name: str, batch: ShapedBatch, **figures: object) -> Row:
    return {
        "model": name,
        "shape": [*batch.shape],
        "batches": batch.num_batches,
        "tokens": batch.num_tokens,
        **figures,
    }


def _all_shapes(shapes: Sequence[Sequence[Row]]) -> list[Row]:
    """Returns rows of an epoch, of the models that were measured throughout.

    Args:
        shapes: A sequence of the rows of each shape, whose models come in one
            order.
    """
    found = []
    for rows in zip(*shapes):
        if any("reason" in row for row in rows):
            continue
        times = [row["batches"] for row in rows]

        def total(values: Sequence[float], times: list[int] = times) -> float:
            return sum(n * value for n, value in zip(times, values))

        found.append(
            {
                "model": rows[0]["model"],
                "shape": None,
                "batches": sum(times),
                "tokens": total([row["tokens"] for row in rows]),
                "seconds": [
                    total(of_round)
                    for of_round in zip(*(row["seconds"] for row in rows))
                ],
                "memory_bytes": max(row["memory_bytes"] or 0 for row in rows)
                or None,
                "flops": total([row["flops"] for row in rows]),
            }
        )
    return found


def _compared(
    rows: Sequence[Row], sinusoidal: str, peak: float | None
) -> list[Row]:
    """Adds what follows from the times of one shape.

    Args:
        rows: A sequence of rows of a shape.
        sinusoidal: A string, the model that is compared with.
        peak: 10^12 operations a second that the device can do, if known.
    """
    measured = {row["model"]: row for row in rows if "reason" not in row}
    for name, row in measured.items():
        seconds = row["seconds"]
        row["tokens_per_second"] = [row["tokens"] / s for s in seconds]
        row["flops_per_second"] = row["flops"] / median(seconds)
        if peak:
            row["share"] = row["flops_per_second"] / (1e12 * peak)
        if name != sinusoidal and sinusoidal in measured:
            base = measured[sinusoidal]["seconds"]
            row["over_sinusoidal"] = ratios(seconds, base)
    return [*rows]


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""
    header = [
        "model",
        "batch",
        "step",
        "tokens/s",
        "time over sinusoidal",
        "memory",
        "TFLOP/s",
        "of peak",
    ]
    table = markdown_table(header, [_cells(row) for row in result.rows])
    options = result.options
    return (
        f"{table}\n\n"
        f"{options['dtype']}, {options['batch_tokens']:,} padded tokens a side "
        f"and batch, {options['vocabulary_size']:,} pieces; median of "
        f"{options['rounds']} rounds of {options['steps']} steps (least to "
        "greatest)."
    )


def _cells(row: Row) -> list[str]:
    """Returns the cells of a row of the table."""
    shape = row["shape"]
    cells = [row["model"], "{} x {}".format(*shape) if shape else "all"]
    if "reason" in row:
        return [*cells, f"- ({row['reason']})", *[""] * 5]
    memory, share = row["memory_bytes"], row.get("share")
    over = row.get("over_sinusoidal")
    return [
        *cells,
        f"{1000 * median(row['seconds']):,.1f} ms" if shape else "",
        f"{median(row['tokens_per_second']):,.0f}",
        spread(over, digits=3) if over else "",
        f"{memory / 1e9:,.2f} GB" if memory else "-",
        f"{row['flops_per_second'] / 1e12:,.3g}",
        f"{share:.1%}" if share else "unknown",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    if keras.backend.backend() != "jax":
        sys.exit(
            "error: this benchmark is of Keras' JAX backend. Received: "
            f"{keras.backend.backend()}. Set KERAS_BACKEND=jax."
        )
    run_benchmark(
        parser,
        options,
        arguments,
        measure,
        describe,
        packages=["jaxlib"],
        precision=options.dtype,
    )


if __name__ == "__main__":
    main()
