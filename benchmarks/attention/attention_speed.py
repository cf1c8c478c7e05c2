"""What relative positions cost an attention layer, in time and in memory.

`RelativeSelfAttention`, the same layer without relations, and
`keras.layers.MultiHeadAttention`, forward alone, and forward and backward: in
graphs for any length, as `fit` and `translate` make them, and in graphs for
one. From the root of a checkout, with the package installed:

    python -m benchmarks.attention.attention_speed

The layers share a process and take turns: a round calls each of them once and
begins with another one than the round before, and a ratio is that of calls of
the same round. The median of the rounds is taken in each of several processes.
The table shows the middle one, the lowest and the highest. Peak memory is what
a process with one layer took for forward and backward pass, on top of what it
had before.
"""

import argparse
import functools
import itertools
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import largest_resident_set
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from benchmarks.harness.results import ratios
from benchmarks.harness.results import spread
from relative_attention.tensor_type import Tensor

RELATIVE, PLAIN, KERAS = KINDS = ("relative", "none", "keras")
UNKNOWN, KNOWN = GRAPHS = ("unknown", "known")
PRECISIONS = ("float32", "mixed_bfloat16")

# What is shown: of which figure the ratio, over which layer.
_COLUMNS = {
    "forward + backward, over no relations": ("backward", PLAIN),
    "over Keras' layer": ("backward", KERAS),
    "forward, over no relations": ("forward", PLAIN),
    "peak memory, over Keras' layer": ("memory", KERAS),
}
_LONG = 2048
_WARM_UP_ROUNDS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    lengths = [16, 32, 64, 128, 256, 512, 1024, _LONG]
    add("--lengths", type=positive_int, nargs="+", default=lengths)
    add("--precision", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    add("--encodings", nargs="+", default=["relative"], metavar="NAME")
    only = parser.add_mutually_exclusive_group()
    for graph in GRAPHS:
        only.add_argument(
            f"--{graph}",
            dest="graphs",
            action="store_const",
            const=[graph],
            default=GRAPHS,
            help=f"graphs for {graph} lengths alone",
        )
    add(
        "--onednn",
        nargs="+",
        default=["default"],
        choices=["default", "off"],
        help='"off" sets TF_ENABLE_ONEDNN_OPTS=0; both are two passes',
    )
    add("--rounds", type=positive_int, default=21)
    add("--processes", type=positive_int, default=3)
    add("--mask", default="none", choices=["none", "padding", "causal"])
    add("--dropout", type=float, default=0.0, help="of backward passes")
    add("--distance", type=positive_int, default=16, metavar="K")
    add("--batch-tokens", type=positive_int, default=2048)
    add("--num-heads", type=positive_int, default=8)
    add("--key-dim", type=positive_int, default=64)
    add(
        "--memory-length",
        type=int,
        default=_LONG,
        metavar="T",
        help="peak memory is measured there, if it is one of --lengths "
        "(default: %(default)s)",
    )


def make_passes(
    kind: str,
    options: argparse.Namespace,
    precision: str,
    graph: str,
    encoding: str = RELATIVE,
) -> dict[str, Callable[..., Any]]:
    """Returns the passes of one of `KINDS`, as functions of `make_inputs`.

    Positions of `"relative"` are those of another encoding, if it says so.

    `"forward"` is that of inference; `"backward"` is forward and backward pass
    of training, and returns the gradients of inputs and weights.
    """
    import keras
    import tensorflow as tf

    import relative_attention as ra

    shape = (None, None, options.num_heads * options.key_dim)
    sizes = (options.num_heads, options.key_dim)
    common = {"dropout": options.dropout, "dtype": precision}
    if kind == KERAS:
        layer = keras.layers.MultiHeadAttention(
            *sizes, use_bias=False, **common
        )
        layer.build(shape, shape)
    elif kind == RELATIVE and encoding != RELATIVE:
        layer = ra.SelfAttention(*sizes, encoding, **common)
        layer.build(shape)
    else:
        layer = ra.RelativeSelfAttention(
            *sizes,
            options.distance,
            use_key_relations=kind == RELATIVE,
            use_value_relations=kind == RELATIVE,
            **common,
        )
        layer.build(shape)
    is_causal = options.mask == "causal"

    def call(inputs: Tensor, mask: Tensor | None, **settings: Any) -> Tensor:
        settings["use_causal_mask"] = is_causal
        if kind == KERAS:
            masks = {"query_mask": mask, "value_mask": mask}
            return layer(inputs, inputs, **masks, **settings)
        return layer(inputs, mask=mask, **settings)

    def forward(inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return call(inputs, mask, training=False)

    def backward(inputs: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = call(inputs, mask, training=True)
        # As if the layers that follow had sent back the outputs.
        return tape.gradient(
            outputs,
            [inputs, *layer.trainable_variables],
            output_gradients=tf.stop_gradient(outputs),
        )

    signature = [tf.TensorSpec(shape, layer.compute_dtype)]
    if options.mask == "padding":
        signature.append(tf.TensorSpec(shape[:2], "bool"))
    return {
        function.__name__: tf.function(
            function,
            # Without, there is a graph for each length.
            input_signature=signature if graph == UNKNOWN else None,
            autograph=False,
        )
        for function in (forward, backward)
    }


def make_inputs(
    options: argparse.Namespace, length: int, precision: str
) -> list[Tensor]:
    """Returns a batch for `make_passes`, with its padding mask if asked for."""
    import keras
    import numpy as np
    import tensorflow as tf

    rows = max(1, options.batch_tokens // length)
    shape = (rows, length, options.num_heads * options.key_dim)
    values = np.random.default_rng(0).normal(size=shape)
    dtype = keras.dtype_policies.get(precision).compute_dtype
    inputs = [tf.cast(values, dtype)]
    if options.mask == "padding":
        # Sentences of three quarters of the length and more.
        lengths = np.linspace(length - length // 4, length, rows).astype(int)
        inputs.append(tf.sequence_mask(lengths, length))
    return inputs


def measure(options: argparse.Namespace) -> list[Row]:
    """Returns a row for each graph and length, by the options."""
    cases = list(
        itertools.product(
            options.onednn, options.precision, options.graphs, options.encodings
        )
    )
    found: dict[Any, list[dict[str, Any]]] = {}
    for number in range(options.processes):
        for onednn, precision, graph, encoding in cases:
            show_progress(
                f"process {number + 1} of {options.processes}: {precision}, "
                f"{graph} lengths, {encoding}, oneDNN {onednn}"
            )
            environment = {"TF_CPP_MIN_LOG_LEVEL": "2"}
            if onednn == "off":
                environment["TF_ENABLE_ONEDNN_OPTS"] = "0"
            run = functools.partial(in_fresh_process, environment=environment)
            case = (options, precision, graph, encoding)
            times = run(_times, *case)
            if options.memory_length in times:
                times[options.memory_length]["memory"] = {
                    kind: [run(_peak_memory, kind, *case)] for kind in KINDS
                }
            for length, figures in times.items():
                name = (onednn, precision, graph, encoding, length)
                found.setdefault(name, []).append(figures)
    show_progress()
    names = ("onednn", "precision", "graph", "encoding", "tokens")
    return [
        {**dict(zip(names, name)), **_figures(processes)}
        for name, processes in found.items()
    ]


def _times(
    options: argparse.Namespace, precision: str, graph: str, encoding: str
) -> dict[int, dict[str, dict[str, list[float]]]]:
    """Returns the milliseconds of a call by length, pass, layer and round."""
    passes = {
        kind: make_passes(kind, options, precision, graph, encoding)
        for kind in KINDS
    }
    found: dict[int, Any] = {}
    for length in options.lengths:
        inputs = make_inputs(options, length, precision)
        found[length] = {
            name: {kind: [] for kind in KINDS} for name in passes[PLAIN]
        }
        for name, times in found[length].items():
            for number in range(-_WARM_UP_ROUNDS, options.rounds):
                first = number % len(KINDS)
                for kind in KINDS[first:] + KINDS[:first]:
                    call = functools.partial(passes[kind][name], *inputs)
                    milliseconds = _call_time(call)
                    if number >= 0:
                        times[kind].append(milliseconds)
    return found


def _call_time(function: Callable[[], Tensor]) -> float:
    """Returns the milliseconds of a call, until its outputs are there."""
    import keras

    start = time.perf_counter()
    first = keras.tree.flatten(function())[0]
    if keras.backend.backend() == "jax":
        first.block_until_ready()
    else:
        first.numpy()
    return 1000 * (time.perf_counter() - start)


def _peak_memory(
    kind: str,
    options: argparse.Namespace,
    precision: str,
    graph: str,
    encoding: str,
) -> int:
    """Returns the bytes that passes of training take of a process."""
    passes = make_passes(kind, options, precision, graph, encoding)
    backward = passes["backward"]
    inputs = make_inputs(options, options.memory_length, precision)
    # Two tokens load what every layer needs.
    backward(*[each[:, :2] for each in inputs])
    before = largest_resident_set()
    for _ in range(3):
        backward(*inputs)
    # A page at least, as ratios are taken.
    return max(4096, largest_resident_set() - before)


def _figures(processes: Sequence[Mapping[str, Any]]) -> Row:
    """Returns medians of milliseconds and bytes, and ratios, by process."""
    return {
        name: {
            "median": {
                kind: [median(each[name][kind]) for each in processes]
                for kind in KINDS
            },
            "over": {
                base: [
                    median(ratios(each[name][RELATIVE], each[name][base]))
                    for each in processes
                ]
                for base in (PLAIN, KERAS)
            },
        }
        for name in processes[0]
    }


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""

    def cell(row: Row, name: str, base: str) -> str:
        return spread(row[name]["over"][base]) if name in row else ""

    cells = [
        [
            f"{row['encoding']}, " * (row["encoding"] != RELATIVE)
            + f"{row['graph']}, {row['precision']}"
            + ", no oneDNN" * (row["onednn"] == "off"),
            f"{row['tokens']:,}",
            f"{median(row['backward']['median'][RELATIVE]):,.1f} ms",
            *(cell(row, *column) for column in _COLUMNS.values()),
        ]
        for row in result.rows
    ]
    header = ["lengths", "T", "forward + backward", *_COLUMNS]
    options = result.options
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"Hidden {options['num_heads'] * options['key_dim']}, "
        f"{options['num_heads']} heads, K = {options['distance']}, "
        f"{options['batch_tokens']:,} tokens "
        f"a batch, mask: {options['mask']}, dropout {options['dropout']}; "
        f"median of {options['rounds']} rounds, the middle one of "
        f"{options['processes']} processes (least to greatest)."
    )


main = benchmark(
    "attention.attention_speed",
    __doc__,
    "--unknown --lengths 64 512 --precision float32 --processes 1",
    add_arguments,
    measure,
    describe,
    precision=lambda options: " and ".join(options.precision),
)

if __name__ == "__main__":
    main()
