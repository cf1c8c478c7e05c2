"""What a GPU makes of the base model, its layer and its decoding, on JAX.

From the root of a checkout, with the package installed:

    KERAS_BACKEND=jax python -m benchmarks.gpu

It trains base without relations and with them, by batch and sentence length,
and with as many tokens as fit; times the layer beside Keras' own with its flash
attention; decodes by beam and batch; and trains on all devices, if there are
several. In mixed_bfloat16. What does not fit, and what there was no time for,
is stored as such. `--tiny` runs the same with sizes for a CPU.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from relative_attention.cli.benchmark import known_peak
from relative_attention.errors import InputError

_PRECISION = "mixed_bfloat16"
# Of what the device has, as memory becomes fragmented.
_SAFE_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes that are measured: of a GPU, or tiny ones."""

    presets: tuple[str, str] = (
        "transformer_base",
        "transformer_base_relative",
    )
    fields: dict[str, int] = dataclasses.field(default_factory=dict)
    vocabulary_size: int = 32768
    batches: tuple[int, ...] = (4096, 25_000)
    length: int = 128
    lengths: tuple[int, ...] = (32, 128, 512, 2048, 8192)
    layer: tuple[int, int, int] = (8, 64, 16)  # heads, width of one, K
    beams: tuple[int, ...] = (1, 4)
    sentences: tuple[int, ...] = (1, 32, 256)
    output_length: int = 64


_TINY = Sizes(
    presets=("transformer_tiny", "transformer_tiny_relative"),
    fields={
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": 16,
        "intermediate_dim": 16,
        "num_heads": 2,
    },
    batches=(16, 32),
    length=4,
    lengths=(4, 8),
    layer=(2, 8, 2),
    beams=(1, 2),
    sentences=(2,),
    output_length=4,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what may be chosen."""
    add = parser.add_argument
    add("--tiny", action="store_true", help="sizes for a CPU, to try it")
    add(
        "--minutes",
        type=float,
        default=8.0,
        help="begin nothing after these (default: %(default)s)",
    )
    add("--rounds", type=positive_int, default=5, metavar="NUMBER")
    add("--steps", type=positive_int, default=10, metavar="NUMBER")


@dataclasses.dataclass
class Clock:
    """The time that is left, and how a program is timed."""

    end: float
    rounds: int
    steps: int

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to begin."""
        return time.perf_counter() > self.end

    def seconds(self, call: Callable[[], Any], steps: int = 0) -> list[float]:
        """Returns the seconds of a call in each round, after one to warm up."""
        import jax

        steps = steps or self.steps
        jax.block_until_ready(call())
        rounds = []
        for _ in range(self.rounds):
            start = time.perf_counter()
            for _ in range(steps):
                output = call()
            jax.block_until_ready(output)
            rounds.append((time.perf_counter() - start) / steps)
        return rounds


def measure(options: argparse.Namespace) -> list[Row]:
    """Returns the rows of all parts."""
    import keras

    if keras.backend.backend() != "jax":
        raise InputError(
            "Set KERAS_BACKEND=jax: this measures with JAX. Received: "
            f"{keras.backend.backend()}."
        )
    sizes = _TINY if options.tiny else Sizes()
    end = time.perf_counter() + 60 * options.minutes
    clock = Clock(end, options.rounds, options.steps)
    rows: list[Row] = []
    # If time is short, long sentences are left out, and not a whole part.
    for part in (_layers, _decoding, _training, _several_devices):
        for row in part(sizes, clock):
            rows.append(row)
    show_progress()
    return rows


def memory_of(program: Any) -> int:
    """Returns the bytes that a compiled program needs with its arguments."""
    found = program.memory_analysis()
    return int(
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )


def memory_limit() -> int | None:
    """Returns the bytes that the first device gives, if it says so."""
    import jax

    statistics = jax.devices()[0].memory_stats() or {}
    return statistics.get("bytes_limit")


def compiled(lowered: Sequence[Any], clock: Clock) -> list[Any]:
    """Compiles programs at the same time; an error takes its program's place.

    Tracing holds Python's lock, so the programs were lowered before.
    """
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    futures = [pool.submit(each.compile) for each in lowered]
    found: list[Any] = []
    for future in futures:
        left = max(clock.end - time.perf_counter(), 0)
        try:
            found.append(future.result(timeout=left))
        # XLA has many errors, and each is worth a row of the result.
        except Exception as error:
            found.append(error)
    pool.shutdown(wait=False, cancel_futures=True)
    return found


def failure(error: Exception) -> dict[str, str]:
    """Returns what is stored in place of figures."""
    if isinstance(error, TimeoutError):
        return {"failed": "no time left"}
    return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def timed(
    program: Any, call: Any, clock: Clock, steps: int = 0
) -> dict[str, Any]:
    """Returns seconds and memory of a compiled program, or why not."""
    if isinstance(program, Exception):
        return failure(program)
    found: dict[str, Any] = {"bytes": memory_of(program)}
    limit = memory_limit()
    if limit is not None and found["bytes"] > limit:
        return {**found, "failed": "does not fit"}
    if clock.is_over:
        return {**found, "failed": "no time left"}
    try:
        return {**found, "seconds": clock.seconds(call, steps)}
    except Exception as error:  # As above.
        return {**found, **failure(error)}


# === The layer ===


def _layers(sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """Yields forward and backward of our layer, and of Keras' own."""
    import jax
    import keras
    import numpy as np

    import relative_attention as ra

    num_heads, width, distance = sizes.layer
    arguments: dict[str, Any] = {"key_dim": width, "dtype": _PRECISION}
    # Flash attention is there on GPUs alone; without saying so, where it works.
    on_gpu = jax.default_backend() != "cpu"
    kinds = {
        "relative": ra.RelativeSelfAttention(
            num_heads, max_relative_position=distance, **arguments
        ),
        "keras": keras.layers.MultiHeadAttention(
            num_heads, flash_attention=on_gpu or None, **arguments
        ),
    }
    cases, calls = [], []
    lowered: list[Any] = []
    for length in sizes.lengths:
        rows = max(sizes.batches[-1] // length, 1)
        shape = (rows, length, num_heads * width)
        values = np.random.default_rng(0).normal(size=shape)
        inputs = jax.numpy.asarray(values, "bfloat16")
        for kind, layer in kinds.items():
            show_progress(f"layer: {kind}, {length} tokens")
            program = jax.jit(_backward(layer, inputs))
            weights = [variable.value for variable in layer.weights]
            cases.append({"part": "layer", "kind": kind, "tokens": length})
            try:
                lowered.append(program.lower(weights, inputs))
            except Exception as error:  # Such as no flash attention here.
                lowered.append(_Failed(error))
            calls.append((weights, inputs))
    programs = compiled(lowered, clock)
    for case, program, given in zip(cases, programs, calls, strict=True):
        show_progress(f"layer: {case['kind']}, {case['tokens']} tokens")
        call = functools.partial(program, *given) if callable(program) else None
        yield {**case, **timed(program, call, clock)}


class _Failed:
    """Stands for a program that could not be traced."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def compile(self) -> Any:
        raise self.error


def _backward(layer: Any, inputs: Any) -> Callable[..., Any]:
    """Returns the function of weights and inputs that gives their gradients."""
    import jax
    import keras

    # Keras' layer takes the query and the value.
    is_keras = isinstance(layer, keras.layers.MultiHeadAttention)
    count = 1 + is_keras
    if not layer.built:
        layer.build(*[inputs.shape] * count)

    def loss(weights: list[Any], inputs: Any) -> Any:
        outputs, _ = layer.stateless_call(weights, [], *[inputs] * count)
        # As if the layers that follow had sent back the outputs.
        kept = jax.lax.stop_gradient(outputs)
        return (outputs * kept).astype("float32").sum()

    return jax.grad(loss, argnums=(0, 1))


# === Training ===


def _training(sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """Yields steps of both presets, by batch and length, and what fits."""
    steps = [_Step(name, sizes) for name in sizes.presets]
    # Bytes by tokens of a batch, if the step could be compiled.
    needed = {}
    for batch in sizes.batches:
        rows = _steps_of(steps, batch, sizes.length, clock)
        yield from rows
        needed[batch] = rows[-1].get("bytes")
    largest = _largest_batch(needed, sizes.length)
    if largest is not None:
        yield from _steps_of(steps, largest, sizes.length, clock)
    for length in sizes.lengths:
        if length != sizes.length:
            yield from _steps_of(steps, sizes.batches[-1], length, clock)


def _steps_of(
    steps: Sequence["_Step"], batch: int, length: int, clock: Clock
) -> list[Row]:
    """Returns the figures of both presets for batches of one shape.

    A shape is timed before the next is compiled: XLA chooses kernels by running
    them, which would disturb. And what comes first is there if time is short.
    """
    programs: list[Any] = [TimeoutError()] * len(steps)
    if not clock.is_over:
        show_progress(f"training: {batch} tokens, {length} a sentence")
        programs = compiled(
            [step.lower(batch, length) for step in steps], clock
        )
    return [
        step.row(program, batch, length, clock)
        for step, program in zip(steps, programs, strict=True)
    ]


def _largest_batch(needed: dict[int, int | None], length: int) -> int | None:
    """Returns the tokens that fit, by the memory that two batches need."""
    limit = memory_limit()
    (few, less), (many, more) = needed.items()
    if limit is None or less is None or more is None:
        return None
    per_token = (more - less) / (many - few)
    tokens = int((_SAFE_SHARE * limit - less) / per_token) + few
    return tokens // length * length


class _Step:
    """A model, and its step on random sentences of one length."""

    def __init__(self, name: str, sizes: Sizes) -> None:
        import relative_attention as ra
        from relative_attention.recipes.sections import TrainingSection
        from relative_attention.runs.run import compile_model

        self.name, self.sizes = name, sizes
        self.model = ra.Transformer.from_preset(
            name, sizes.vocabulary_size, dtype=_PRECISION, **sizes.fields
        )
        compile_model(self.model, TrainingSection(), total_steps=1)
        # As `fit` does before the first step: metrics get their variables.
        example = self.batch(sizes.length, sizes.length)
        self.model._symbolic_build(data_batch=example)

    def batch(self, batch_tokens: int, length: int) -> Any:
        """Returns inputs and labels, as `fit` gives them to a step."""
        import numpy as np

        from relative_attention.training.update import own_rows

        rows = max(batch_tokens // length, 1)
        ids = np.random.default_rng(0).integers(
            3, self.sizes.vocabulary_size, (2, rows, length), np.int32
        )
        names = ("source_token_ids", "target_token_ids")
        return own_rows((dict(zip(names, ids)), ids[1], None))

    def state(self) -> Any:
        """Returns copies of the values, which a step may overwrite."""
        import jax

        model = self.model
        variables = (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
        return jax.tree.map(
            jax.numpy.copy,
            tuple([variable.value for variable in each] for each in variables),
        )

    def lower(self, batch_tokens: int, length: int) -> Any:
        """Traces a step on the devices of Keras' distribution."""
        import jax

        batch = self.batch(batch_tokens, length)
        step = jax.jit(self.model.train_step, donate_argnums=0)
        return step.lower(self.state(), _on_devices(batch))

    def row(
        self, program: Any, batch_tokens: int, length: int, clock: Clock
    ) -> Row:
        """Returns the figures of a compiled step."""
        from relative_attention.models import training_flops

        rows = len(self.batch(batch_tokens, length)[1])
        case = {
            "part": "training",
            "kind": self.name,
            "batch_tokens": batch_tokens,
            "tokens": length,
        }
        state = None

        def step() -> Any:
            nonlocal state
            logs, state = program(state, batch)
            return logs

        if not isinstance(program, Exception):
            state = self.state()
            batch = _on_devices(self.batch(batch_tokens, length))
        found = timed(program, step, clock)
        seconds = found.get("seconds", [])
        flops = rows * training_flops(self.model.config, length, length)
        return {
            **case,
            **found,
            "tokens_per_second": [2 * rows * length / s for s in seconds],
            "flops_per_second": [flops / s for s in seconds],
        }


def _on_devices(batch: Any) -> Any:
    """Puts a batch where the devices of Keras' distribution read it."""
    import jax
    import keras

    distribution = keras.distribution.distribution()

    def put(rows: Any) -> Any:
        if distribution is None:
            return jax.device_put(rows)
        layout = distribution.get_data_layout(rows.shape)
        return jax.device_put(rows, layout.backend_layout)

    return jax.tree.map(put, batch)


# === Decoding ===


def _decoding(sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """Yields translations by a model that was not trained."""
    import numpy as np

    import relative_attention as ra

    name = sizes.presets[-1]
    model = ra.Transformer.from_preset(
        name, sizes.vocabulary_size, dtype=_PRECISION, **sizes.fields
    )
    random = np.random.default_rng(0)
    cases = itertools.product(sizes.beams, sizes.sentences)
    for num_beams, count in cases:
        case = {
            "part": "decoding",
            "kind": name,
            "beams": num_beams,
            "sentences": count,
        }
        show_progress(f"decoding: beam {num_beams}, {count} sentences")
        if clock.is_over:
            yield {**case, "failed": "no time left"}
            continue
        source = random.integers(
            3, sizes.vocabulary_size, (count, sizes.output_length), np.int32
        )
        source[:, -1] = 1  # The end of a sentence.
        # As long as the source at most.
        translate = functools.partial(
            ra.beam_search, model, source, num_beams, max_extra_length=0
        )
        try:
            seconds = clock.seconds(translate, steps=1)
            width = translate()["token_ids"].shape[-1]
        except Exception as error:  # As above.
            yield {**case, **failure(error)}
            continue
        speeds = [count * width / each for each in seconds]
        yield {**case, "seconds": seconds, "tokens_per_second": speeds}


# === Several devices ===


def _several_devices(sizes: Sizes, clock: Clock) -> Iterator[Row]:
    """Yields steps on all devices, if there are several."""
    import keras

    devices = keras.distribution.list_devices()
    if len(devices) == 1:
        return
    distribution = keras.distribution.DataParallel(devices=devices)
    name = sizes.presets[-1]
    with distribution.scope():
        step = _Step(name, sizes)
        totals = [len(devices) * batch for batch in sizes.batches]
        lowered = [step.lower(total, sizes.length) for total in totals]
        for total, program in zip(
            totals, compiled(lowered, clock), strict=True
        ):
            show_progress(f"{len(devices)} devices: {total} tokens")
            row = step.row(program, total, sizes.length, clock)
            yield {**row, "part": "devices", "devices": len(devices)}


# === What is printed ===


def describe(result: Result) -> str:
    """Returns a table of each part."""
    peak = known_peak(result.origin["hardware"], _PRECISION)
    tables = []
    for part, names in {
        "layer": ["kind", "tokens"],
        "training": ["kind", "batch_tokens", "tokens"],
        "decoding": ["beams", "sentences"],
        "devices": ["devices", "batch_tokens", "tokens"],
    }.items():
        rows = [row for row in result.rows if row["part"] == part]
        if rows:
            header = [*names, "ms", "tokens/s", "of the peak", "GB"]
            cells = [
                [*(f"{row[name]}" for name in names), *_figures(row, peak)]
                for row in rows
            ]
            tables.append(f"{part}:\n\n{markdown_table(header, cells)}")
    return "\n\n".join(tables)


def _figures(row: Row, peak: float | None) -> list[str]:
    memory = f"{row['bytes'] / 1e9:.2f}" if "bytes" in row else ""
    if "failed" in row:
        return [row["failed"], "", "", memory]
    speed = row.get("tokens_per_second")
    flops = row.get("flops_per_second")
    return [
        f"{1000 * median(row['seconds']):,.2f}",
        f"{median(speed):,.0f}" if speed else "",
        f"{median(flops) / 1e12 / peak:.1%}" if peak and flops else "",
        memory,
    ]


main = benchmark(
    "gpu",
    __doc__,
    "--tiny",
    add_arguments,
    measure,
    describe,
    precision=lambda _: _PRECISION,
)

if __name__ == "__main__":
    main()
