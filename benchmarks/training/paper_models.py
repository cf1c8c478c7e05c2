"""How much memory the paper's models need to train, by what a step keeps.

Nothing is trained. For the base and the big model, with sinusoidal and with
relative positions, the program counts the bytes of weights, gradients and
Adam's two moments in float32, and of all arrays that the backward pass of a
step needs: JAX traces the step and names them, before any of them is fused or
computed again. A batch has 4,096 tokens a side, as on a device in the recipes
`wmt14_*`, of sentences of 128 tokens. From the root of a checkout, with the
package and JAX installed:

    python -m benchmarks.training.paper_models
"""

import argparse
import math
from typing import Any

from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import in_fresh_process
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table

PRESETS = (
    "transformer_base",
    "transformer_base_relative",
    "transformer_big",
    "transformer_big_relative",
)
_LENGTH = 128
# A weight, its gradient and two moments, in float32.
_BYTES_OF_A_WEIGHT = 16


def measure(options: argparse.Namespace) -> list[Row]:
    """Counts for every preset, each in its own process."""
    rows: list[Row] = []
    for preset in options.presets:
        show_progress(preset)
        row = in_fresh_process(
            _count,
            preset,
            options.precision,
            options.vocabulary_size,
            max(options.batch_tokens // _LENGTH, 1),
            environment={"KERAS_BACKEND": "jax"},
        )
        rows.append({"preset": preset, **row})
    show_progress()
    return rows


def _count(
    preset: str, precision: str, vocabulary_size: int, num_pairs: int
) -> Row:
    import jax

    import relative_attention as ra

    model = ra.Transformer.from_preset(preset, vocabulary_size, dtype=precision)
    loss = ra.MaskedCrossEntropy(label_smoothing=0.1)
    trainable, others = (
        [variable.value for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
        )
    )

    def loss_of(weights: Any, ids: Any) -> Any:
        inputs = {"source_token_ids": ids, "target_token_ids": ids}
        logits, _ = model.stateless_call(weights, others, inputs, training=True)
        return loss(ids, logits)

    def kept(weights: Any, ids: Any) -> Any:
        # A function whose leaves are the arrays that it needs.
        return jax.vjp(lambda weights: loss_of(weights, ids), weights)[1]

    ids = jax.ShapeDtypeStruct((num_pairs, _LENGTH), "int32")
    arrays = jax.tree.leaves(jax.eval_shape(kept, trainable, ids))
    parameters = model.count_params()
    return {
        "parameters": parameters,
        "state_bytes": _BYTES_OF_A_WEIGHT * parameters,
        "kept_bytes": sum(
            math.prod(array.shape) * array.dtype.itemsize for array in arrays
        ),
    }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--presets", nargs="+", default=[*PRESETS], metavar="NAME")
    add("--precision", default="mixed_bfloat16")
    add_numbers(parser, vocabulary_size=32768, batch_tokens=4096)


def gigabytes(row: Row) -> str:
    """Returns the memory that a row says in all."""
    return f"{(row['state_bytes'] + row['kept_bytes']) / 1e9:.1f}"


def memory_table(result: Result) -> str:
    """Returns parameters and memory, by preset."""
    cells = [
        [f"`{row['preset']}`", f"{row['parameters']:,}", gigabytes(row)]
        for row in result.rows
    ]
    return markdown_table(["preset", "parameters", "GB"], cells)


main = benchmark(
    "training.paper_models",
    __doc__,
    "--presets transformer_base_relative",
    _add_arguments,
    measure,
    memory_table,
    packages=["jax"],
    precision=lambda options: options.precision,
)

if __name__ == "__main__":
    main()
