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

from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import largest_resident_set
from benchmarks.harness.engine import reset_largest_resident_set
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
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

# What a row is of, and what it has.
_NAMES = ("onednn", "precision", "graph", "encoding", "tokens")
_FIGURES = ("forward", "backward", "memory")
_LONG = 2048
_WARM_UP_ROUNDS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add_numbers(parser, lengths=[16, 32, 64, 128, 256, 512, 1024, _LONG])
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
        default="default",
        choices=["default", "off"],
        help='"off" sets TF_ENABLE_ONEDNN_OPTS=0',
    )
    add("--cpu-time", action="store_true", help="measure processor time")
    add("--memory-only", action="store_true", help="measure no times")
    add("--mask", default="none", choices=["none", "causal"])
    add("--dropout", type=float, default=0.0, help="of backward passes")
    add_numbers(parser, distance=16, batch_tokens=2048, num_heads=8)
    add_numbers(parser, key_dim=64, rounds=21, processes=3, memory_calls=3)
    add(
        "--memory-length",
        type=int,
        nargs="*",
        default=[_LONG],
        metavar="T",
        help="peak memory is measured there, for those of --lengths "
        f"(default: {_LONG})",
    )


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

    def call(inputs: Tensor, training: bool) -> Tensor:
        both = [inputs] * (2 if kind == KERAS else 1)
        return layer(*both, use_causal_mask=is_causal, training=training)

    if backend == "jax":
        return _passes_on_jax(layer, call)
    if backend == "torch":
        return _passes_on_torch(layer, call)
    import tensorflow as tf

    signature = [tf.TensorSpec(shape, layer.compute_dtype)]
    # Without a signature, there is a graph for each length.
    is_any = graph == UNKNOWN or kind == ALL_SCORES
    return _passes_on_tensorflow(layer, call, signature if is_any else None)


# In all of these the backward pass begins as if the layers that follow had sent
# back the outputs.


def _passes_on_tensorflow(
    layer: Any, call: Callable[..., Tensor], signature: list | None
) -> dict[str, Callable[..., Any]]:
    import tensorflow as tf

    def forward(inputs: Tensor) -> Tensor:
        return call(inputs, training=False)

    def backward(inputs: Tensor) -> list[Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = call(inputs, training=True)
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

    def apply(values: list, inputs: Tensor, training: bool) -> Tensor:
        # The seed of dropout stays the same.
        with keras.StatelessScope(state_mapping=list(zip(weights, values))):
            return call(inputs, training)

    @jax.jit
    def forward(values: list, inputs: Tensor) -> Tensor:
        return apply(values, inputs, training=False)

    @jax.jit
    def backward(values: list, inputs: Tensor) -> Any:
        outputs, pull_back = jax.vjp(
            lambda v, x: apply(v, x, training=True), values, inputs
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
    def forward(inputs: Tensor) -> Tensor:
        return call(inputs, training=False)

    def backward(inputs: Tensor) -> Any:
        inputs = inputs.detach().requires_grad_()
        outputs = call(inputs, training=True)
        weights = [weight.value for weight in layer.trainable_variables]
        return torch.autograd.grad(
            outputs, [inputs, *weights], outputs.detach()
        )

    return {"forward": forward, "backward": backward}


def make_inputs(
    options: argparse.Namespace, length: int, precision: str
) -> Tensor:
    """Returns a batch for `make_passes`."""
    import keras
    import numpy as np

    rows = max(1, options.batch_tokens // length)
    shape = (rows, length, options.num_heads * options.key_dim)
    values = np.random.default_rng(0).normal(size=shape)
    dtype = keras.dtype_policies.get(precision).compute_dtype
    return keras.ops.cast(values, dtype)


def measure(options: argparse.Namespace) -> list[Row]:
    """Returns a row for each graph and length, by the options."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if options.onednn == "off":
        environment["TF_ENABLE_ONEDNN_OPTS"] = "0"
    run = functools.partial(in_fresh_process, environment=environment)
    cases = list(
        itertools.product(options.precision, options.graphs, options.encodings)
    )
    found: dict[Any, list[dict[str, Any]]] = {}
    for number in range(options.processes):
        for case in cases:
            show_progress(
                f"process {number + 1} of {options.processes}: "
                f"{', '.join(case)}"
            )
            measured: dict[int, dict[str, Any]] = {
                length: {} for length in options.lengths
            }
            if not options.memory_only:
                measured = run(_times, options, *case)
            for length in measured.keys() & set(options.memory_length):
                measured[length]["memory"] = {
                    kind: [run(_peak_memory, kind, length, options, *case)]
                    for kind in options.kinds
                }
            for length, figures in measured.items():
                name = (options.onednn, *case, length)
                found.setdefault(name, []).append(figures)
    show_progress()
    return [
        {**dict(zip(_NAMES, name)), **_figures(processes)}
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
                function(inputs[:, :2])
        found[length] = {
            name: {kind: [] for kind in kinds} for name in passes[RELATIVE]
        }
        for name, times in found[length].items():
            for number in range(-warm_up, options.rounds):
                first = number % len(kinds)
                for kind in kinds[first:] + kinds[:first]:
                    call = functools.partial(passes[kind][name], inputs)
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
    _wait_for(backward(inputs[:, :2]))
    if isinstance(backward, functools.partial):
        jitted: Any = backward.func
        compiled = jitted.lower(*backward.args, inputs).compile()
        backward = functools.partial(compiled, *backward.args)
    reset_largest_resident_set()
    before = largest_resident_set()
    for _ in range(options.memory_calls):
        _wait_for(backward(inputs))
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
    """Returns the milliseconds or bytes of each row, and all ratios."""
    lines = []
    for row in result.rows:
        names = [str(row[name]) for name in _NAMES]
        for figure in _FIGURES:
            if figure in row:
                found = row[figure]
                took = median(found["median"][RELATIVE])
                over = [
                    f"{spread(ratio)} over {base}"
                    for base, ratio in found["over"].items()
                ]
                unit = "MB" if figure == "memory" else "ms"
                took = took / 1e6 if figure == "memory" else took
                lines.append(
                    f"{', '.join(names)}, {figure}: {took:,.2f} {unit}, "
                    + ", ".join(over)
                )
    return "\n".join(lines)


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
