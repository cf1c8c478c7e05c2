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
a process with one layer and its inputs took for some forward and backward
passes, on top of what it had before. JAX has compiled them by then.

For long texts, `--implementation recompute` computes scores again in the
gradient, and `--kinds all_scores` adds the layer that keeps them all. The
ratios of `--cpu-time` depend less on what else the machine does.
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
from benchmarks.harness.engine import reset_largest_resident_set
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from benchmarks.harness.results import ratios
from benchmarks.harness.results import spread
from relative_attention.errors import InputError
from relative_attention.tensor_type import Tensor

RELATIVE, PLAIN, KERAS = KINDS = ("relative", "none", "keras")
# Relative positions with the scores of all pairs in memory, in any graph.
ALL_SCORES = "all_scores"
UNKNOWN, KNOWN = GRAPHS = ("unknown", "known")
PRECISIONS = ("float32", "mixed_bfloat16")

# What is shown: of which figure the ratio, over which layer.
_COLUMNS = {
    "forward + backward, over no relations": ("backward", PLAIN),
    "over Keras' layer": ("backward", KERAS),
    "forward, over no relations": ("forward", PLAIN),
    "peak memory, over Keras' layer": ("memory", KERAS),
    "forward + backward, over all scores": ("backward", ALL_SCORES),
    "peak memory, over all scores": ("memory", ALL_SCORES),
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
    add(
        "--kinds",
        nargs="+",
        default=KINDS,
        choices=[*KINDS, ALL_SCORES],
        help="the layers to compare; the first must be relative",
    )
    add(
        "--implementation",
        default="auto",
        choices=["auto", "recompute"],
        help="of the layers of this package, see SelfAttention",
    )
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
    add("--cpu-time", action="store_true", help="measure processor time")
    add("--memory-only", action="store_true", help="measure no times")
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
        nargs="*",
        default=[_LONG],
        metavar="T",
        help="peak memory is measured there, for those of --lengths "
        f"(default: {_LONG})",
    )
    add("--memory-calls", type=positive_int, default=3)


def make_passes(
    kind: str,
    options: argparse.Namespace,
    precision: str,
    graph: str,
    encoding: str = RELATIVE,
) -> dict[str, Callable[..., Any]]:
    """Returns the passes of a layer, as functions of `make_inputs`.

    Positions of `"relative"` are those of another encoding, if it says so.

    `"forward"` is that of inference; `"backward"` is forward and backward pass
    of training, and returns the gradients of inputs and weights.
    """
    import keras

    import relative_attention as ra

    backend = keras.backend.backend()
    if kind == ALL_SCORES and backend != "tensorflow":
        raise InputError(
            f"--kinds {ALL_SCORES} is for TensorFlow: elsewhere the layer "
            f"knows the length. Received: {backend}."
        )
    shape = (None, None, options.num_heads * options.key_dim)
    sizes = (options.num_heads, options.key_dim)
    common = {"dropout": options.dropout, "dtype": precision}
    is_causal = options.mask == "causal"
    if kind == KERAS:
        layer = keras.layers.MultiHeadAttention(
            *sizes, use_bias=False, **common
        )
        layer.build(shape, shape)
    else:
        way = "auto" if kind == ALL_SCORES else options.implementation
        positions: Any = encoding
        if kind != RELATIVE or encoding == RELATIVE:
            positions = ra.positions.Relative(
                options.distance,
                use_key_relations=kind != PLAIN,
                use_value_relations=kind != PLAIN,
            )
        layer = ra.SelfAttention(
            *sizes,
            positions,
            bidirectional=not is_causal,
            implementation=way,
            **common,
        )
        layer.build(shape)

    def call(inputs: Tensor, mask: Tensor | None, **settings: Any) -> Tensor:
        settings["use_causal_mask"] = is_causal
        if kind == KERAS:
            masks = {"query_mask": mask, "value_mask": mask}
            return layer(inputs, inputs, **masks, **settings)
        return layer(inputs, mask=mask, **settings)

    if backend == "jax":
        return _passes_on_jax(layer, call)
    if backend == "torch":
        return _passes_on_torch(layer, call)
    import tensorflow as tf

    signature = [tf.TensorSpec(shape, layer.compute_dtype)]
    if options.mask == "padding":
        signature.append(tf.TensorSpec(shape[:2], "bool"))
    # Without a signature, there is a graph for each length.
    is_any = graph == UNKNOWN or kind == ALL_SCORES
    return _passes_on_tensorflow(layer, call, signature if is_any else None)


# In all of these the backward pass begins as if the layers that follow had sent
# back the outputs.


def _passes_on_tensorflow(
    layer: Any, call: Callable[..., Tensor], signature: list | None
) -> dict[str, Callable[..., Any]]:
    import tensorflow as tf

    def forward(inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return call(inputs, mask, training=False)

    def backward(inputs: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = call(inputs, mask, training=True)
        return tape.gradient(
            outputs,
            [inputs, *layer.trainable_variables],
            output_gradients=tf.stop_gradient(outputs),
        )

    return {
        function.__name__: tf.function(
            function, input_signature=signature, autograph=False
        )
        for function in (forward, backward)
    }


def _passes_on_jax(
    layer: Any, call: Callable[..., Tensor]
) -> dict[str, Callable[..., Any]]:
    import jax
    import keras

    weights = layer.trainable_variables
    values = [weight.value for weight in weights]

    def apply(
        values: list, inputs: Tensor, *mask: Tensor, training: bool
    ) -> Tensor:
        # The seed of dropout stays the same.
        with keras.StatelessScope(state_mapping=list(zip(weights, values))):
            return call(inputs, *(mask or [None]), training=training)

    @jax.jit
    def forward(values: list, *inputs: Tensor) -> Tensor:
        return apply(values, *inputs, training=False)

    @jax.jit
    def backward(values: list, inputs: Tensor, *mask: Tensor) -> Any:
        outputs, pull_back = jax.vjp(
            lambda values, inputs: apply(values, inputs, *mask, training=True),
            values,
            inputs,
        )
        return pull_back(outputs)

    return {
        "forward": functools.partial(forward, values),
        "backward": functools.partial(backward, values),
    }


def _passes_on_torch(
    layer: Any, call: Callable[..., Tensor]
) -> dict[str, Callable[..., Any]]:
    import torch

    @torch.no_grad()
    def forward(inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return call(inputs, mask, training=False)

    def backward(inputs: Tensor, mask: Tensor | None = None) -> Any:
        inputs = inputs.detach().requires_grad_()
        outputs = call(inputs, mask, training=True)
        weights = [weight.value for weight in layer.trainable_variables]
        return torch.autograd.grad(
            outputs, [inputs, *weights], outputs.detach()
        )

    return {"forward": forward, "backward": backward}


def make_inputs(
    options: argparse.Namespace, length: int, precision: str
) -> list[Tensor]:
    """Returns a batch for `make_passes`, with its padding mask if asked for."""
    import keras
    import numpy as np
    from keras import ops

    rows = max(1, options.batch_tokens // length)
    shape = (rows, length, options.num_heads * options.key_dim)
    values = np.random.default_rng(0).normal(size=shape)
    dtype = keras.dtype_policies.get(precision).compute_dtype
    inputs = [ops.cast(values, dtype)]
    if options.mask == "padding":
        # Sentences of three quarters of the length and more.
        lengths = np.linspace(length - length // 4, length, rows).astype(int)
        mask = np.arange(length) < lengths[:, None]
        inputs.append(ops.convert_to_tensor(mask))
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
            measured: dict[int, dict[str, Any]] = {
                length: {} for length in options.lengths
            }
            if not options.memory_only:
                measured = run(_times, *case)
            for length in measured.keys() & set(options.memory_length):
                measured[length]["memory"] = {
                    kind: [run(_peak_memory, kind, length, *case)]
                    for kind in options.kinds
                }
            for length, figures in measured.items():
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
        for kind in options.kinds
    }
    kinds = list(passes)
    clock = time.process_time if options.cpu_time else time.perf_counter
    found: dict[int, Any] = {}
    for length in options.lengths:
        inputs = make_inputs(options, length, precision)
        # Graphs for any length are traced by a few tokens of a long text.
        is_long = length > _LONG and graph == UNKNOWN
        warm_up = 0 if is_long else _WARM_UP_ROUNDS
        for layer_passes in passes.values() if is_long else ():
            for function in layer_passes.values():
                function(*[each[:, :2] for each in inputs])
        found[length] = {
            name: {kind: [] for kind in kinds} for name in passes[RELATIVE]
        }
        for name, times in found[length].items():
            for number in range(-warm_up, options.rounds):
                first = number % len(kinds)
                for kind in kinds[first:] + kinds[:first]:
                    call = functools.partial(passes[kind][name], *inputs)
                    milliseconds = _call_time(call, clock)
                    if number >= 0:
                        times[kind].append(milliseconds)
    return found


def _call_time(
    function: Callable[[], Any], clock: Callable[[], float]
) -> float:
    """Returns the milliseconds of a call, until its outputs are there."""
    start = clock()
    _wait_for(function())
    return 1000 * (clock() - start)


def _wait_for(outputs: Any) -> None:
    import keras

    for output in keras.tree.flatten(outputs)[:1]:
        # Only JAX returns before.
        if hasattr(output, "block_until_ready"):
            output.block_until_ready()


def _peak_memory(
    kind: str,
    length: int,
    options: argparse.Namespace,
    precision: str,
    graph: str,
    encoding: str,
) -> int:
    """Returns the bytes that passes of training take of a process."""
    passes = make_passes(kind, options, precision, graph, encoding)
    backward = passes["backward"]
    inputs = make_inputs(options, length, precision)
    # Two tokens load what every layer needs.
    _wait_for(backward(*[each[:, :2] for each in inputs]))
    if isinstance(backward, functools.partial):
        jitted: Any = backward.func
        compiled = jitted.lower(*backward.args, *inputs).compile()
        backward = functools.partial(compiled, *backward.args)
    reset_largest_resident_set()
    before = largest_resident_set()
    for _ in range(options.memory_calls):
        _wait_for(backward(*inputs))
    # A page at least, as ratios are taken.
    return max(4096, largest_resident_set() - before)


def _figures(processes: Sequence[Mapping[str, Any]]) -> Row:
    """Returns medians of milliseconds and bytes, and ratios, by process."""
    return {
        name: {
            "median": {
                kind: [median(each[name][kind]) for each in processes]
                for kind in kinds
            },
            "over": {
                base: [
                    median(ratios(each[name][RELATIVE], each[name][base]))
                    for each in processes
                ]
                for base in kinds
                if base != RELATIVE
            },
        }
        for name, kinds in processes[0].items()
    }


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""

    def cell(row: Row, name: str, base: str) -> str:
        ratio = row.get(name, {}).get("over", {}).get(base)
        return "" if ratio is None else spread(ratio)

    def middle(row: Row, name: str, unit: float) -> str:
        if name not in row:
            return ""
        return f"{median(row[name]['median'][RELATIVE]) / unit:,.2f}"

    columns = {
        header: column
        for header, column in _COLUMNS.items()
        if any(cell(row, *column) for row in result.rows)
    }

    cells = [
        [
            f"{row['encoding']}, " * (row["encoding"] != RELATIVE)
            + f"{row['graph']}, {row['precision']}"
            + ", no oneDNN" * (row["onednn"] == "off"),
            f"{row['tokens']:,}",
            middle(row, "backward", 1),
            middle(row, "memory", 1e9),
            *(cell(row, *column) for column in columns.values()),
        ]
        for row in result.rows
    ]
    header = ["lengths", "T", "forward + backward, ms", "memory, GB", *columns]
    options = result.options
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"Hidden {options['num_heads'] * options['key_dim']}, "
        f"{options['num_heads']} heads, K = {options['distance']}, "
        f"{options['batch_tokens']:,} tokens "
        f"a batch, mask: {options['mask']}, dropout {options['dropout']}, "
        f"implementation: {options['implementation']}; "
        + "processor time; "
        * options["cpu_time"]
        + f"median of {options['rounds']} rounds, the middle one of "
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
