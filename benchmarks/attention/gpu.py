"""What relative positions cost an attention layer on a GPU.

Beside `RelativeSelfAttention` with and without relations there are the same
projections around `jax.nn.dot_product_attention`, by XLA and by cuDNN's fused
kernel. Forward pass, and forward and backward pass; time, memory, and the
share of what a large matrix product reaches on this device. It needs Keras and
JAX, and no TensorFlow:

    KERAS_BACKEND=jax python -m benchmarks.attention.gpu

Layers of one length take turns, and a ratio is that of turns of the same
round. Memory is what the compiler planned for a pass beside its inputs and
outputs. The program begins no length after `--minutes`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Literal

import keras
import numpy as np

from benchmarks.attention.gpu_passes import Passes
from benchmarks.attention.gpu_passes import compile_passes
from benchmarks.attention.gpu_passes import dot_product_layer
from benchmarks.attention.gpu_passes import relative_layer
from benchmarks.harness.call_times import mean_call_time
from benchmarks.harness.call_times import paired_times
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_float
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.progress import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table
from relative_attention.tensor_type import Tensor

NO_RELATIONS = "no relative positions"
XLA = "dot_product_attention, XLA"
CUDNN = "dot_product_attention, cuDNN"
_BASES = (NO_RELATIONS, XLA, CUDNN)
_PASSES = ("forward", "backward")

# A device works on while the next calls are made: one call alone would be
# mostly the time to make it.
_CALLS = 10


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser("attention.gpu", __doc__, "--lengths 512 2048")
    add = parser.add_argument
    lengths = [128, 256, 512, 1024, 2048, 4096, 8192]
    add("--lengths", type=positive_int, nargs="+", default=lengths)
    distances = [16, 64, 256]
    add(
        "--distances",
        type=positive_int,
        nargs="+",
        default=distances,
        metavar="K",
    )
    add(
        "--implementations",
        nargs="+",
        default=["auto"],
        choices=["auto", "transpose"],
    )
    add("--batch-tokens", type=positive_int, default=16384)
    add("--num-heads", type=positive_int, default=8)
    add("--key-dim", type=positive_int, default=64)
    add("--dtype", default="mixed_bfloat16")
    add("--rounds", type=positive_int, default=5)
    add("--seconds", type=positive_float, default=0.1)
    add("--minutes", type=positive_float, default=7)
    add(
        "--product-size",
        type=positive_int,
        default=8192,
        metavar="N",
        help="of the square matrices whose product shows what the device "
        "reaches (default: 8192)",
    )
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Measures all layers at all lengths.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each length and layer; one that cannot be run has
        a `"reason"` in place of figures.
    """
    end = time.monotonic() + 60 * options.minutes
    reached = _product_flops(options)
    rows: list[Row] = []
    for length in options.lengths:
        if time.monotonic() > end:
            rows.append({"tokens": length, "layer": "-", "reason": "no time"})
            continue
        rows += _measure_length(length, reached, options)
    return rows


def _product_flops(options: argparse.Namespace) -> float:
    """Returns the operations a second of a large matrix product."""
    size = options.product_size
    matrix = keras.ops.ones((size, size), _compute_dtype(options))
    product = _repeated(lambda: keras.ops.matmul(matrix, matrix))
    product()
    milliseconds = mean_call_time(product, options.seconds) / _CALLS
    return 1000 * 2 * size**3 / milliseconds


def _measure_length(
    length: int, reached: float, options: argparse.Namespace
) -> list[Row]:
    """Measures all layers at one length."""
    batch_size = max(1, options.batch_tokens // length)
    width = options.num_heads * options.key_dim
    inputs = keras.ops.convert_to_tensor(
        np.random.default_rng(0).normal(size=(batch_size, length, width)),
        _compute_dtype(options),
    )
    made: dict[str, Passes | str] = {}
    for name, make in _layers(inputs, options).items():
        show_progress(f"length {length}, compiles: {name}")
        made[name] = _try_to_compile(make)
    passes = {
        name: found for name, found in made.items() if isinstance(found, Passes)
    }
    times = {
        kind: paired_times(
            {name: _repeated(of.calls[kind]) for name, of in passes.items()},
            options.rounds,
            options.seconds,
            title=f"length {length}, {kind}, ",
        )
        for kind in _PASSES
    }
    # Of the projections and both products with the heads; the backward pass
    # has two products for each of the forward pass.
    flops = 8 * batch_size * length * width * width
    flops += 4 * batch_size * length * length * width
    rows: list[Row] = []
    for name, found in made.items():
        row: Row = {"tokens": length, "layer": name}
        rows.append(row)
        if isinstance(found, str):
            row["reason"] = found
            continue
        for kind, times_as_much in zip(_PASSES, (1, 3)):
            mine = times[kind][name]
            milliseconds = median(mine) / _CALLS
            row[kind] = {
                "ms": milliseconds,
                "over": {
                    base: ratios(mine, times[kind][base])
                    for base in _BASES
                    if base in passes
                },
                "memory_bytes": found.memory_bytes[kind],
                "share": 1000 * times_as_much * flops / milliseconds / reached,
            }
    return rows


def _repeated(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Returns a function of several calls, which gives the last's outputs."""

    def calls() -> Tensor:
        for _ in range(_CALLS):
            outputs = call()
        return outputs

    return calls


def _layers(
    inputs: Tensor, options: argparse.Namespace
) -> dict[str, Callable[[], Passes]]:
    """Returns what compiles each layer, by its name."""

    def relative(
        distance: int | None, implementation: str
    ) -> Callable[[], Passes]:
        return lambda: compile_passes(
            *relative_layer(
                options.num_heads,
                options.key_dim,
                distance,
                implementation,
                inputs,
                options.dtype,
            ),
            inputs,
        )

    def dot_product(kernel: Literal["xla", "cudnn"]) -> Callable[[], Passes]:
        return lambda: compile_passes(
            *dot_product_layer(
                options.num_heads,
                options.key_dim,
                kernel,
                inputs,
                options.dtype,
            ),
            inputs,
        )

    layers = {
        NO_RELATIONS: relative(None, "auto"),
        XLA: dot_product("xla"),
        CUDNN: dot_product("cudnn"),
    }
    for distance in options.distances:
        for implementation in options.implementations:
            name = f'"{implementation}", K {distance}'
            layers[name] = relative(distance, implementation)
    return layers


def _try_to_compile(make: Callable[[], Passes]) -> Passes | str:
    """Compiles and runs a layer once, or says why it cannot be."""
    import jax

    try:
        made = make()
        for call in made.calls.values():
            jax.block_until_ready(call())
    except (RuntimeError, ValueError, NotImplementedError) as error:
        # Kernels that this device lacks, and layers that its memory does not
        # hold. JAX's errors go on for pages.
        return str(error).partition("\n")[0][:80]
    return made


def _compute_dtype(options: argparse.Namespace) -> str:
    return keras.dtype_policies.get(options.dtype).compute_dtype


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""
    compared = [
        "to no positions",
        "to XLA's",
        "to cuDNN's",
        "memory",
        "reached",
    ]
    header = ["layer", "forward", *compared, "forward + backward", *compared]
    table = markdown_table(header, [_cells(row) for row in result.rows])
    options = result.options
    return (
        f"{table}\n\n"
        f"Hidden {options['num_heads'] * options['key_dim']}, "
        f"{options['num_heads']} heads, {options['batch_tokens']:,} tokens a "
        f"batch (at least one sentence), {options['dtype']}; median of "
        f"{options['rounds']} rounds (least to greatest); reached: operations "
        "a second of the layer without relations over those of a product of "
        f"{options['product_size']:,} x {options['product_size']:,}."
    )


def _cells(row: Row) -> list[str]:
    """Returns the cells of a row of the table."""
    cells = [f"T {row['tokens']:,}: {row['layer']}"]
    if "reason" in row:
        return [*cells, f"- ({row['reason']})", *[""] * 11]
    for kind in _PASSES:
        figures = row[kind]
        memory = figures["memory_bytes"]
        cells += [
            f"{figures['ms']:,.3f} ms",
            *(
                spread(figures["over"][base]) if base in figures["over"] else ""
                for base in _BASES
            ),
            "-" if memory is None else f"{memory / 1e6:,.0f} MB",
            f"{figures['share']:.0%}",
        ]
    return cells


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
