"""Blocks of rows that are computed one by one, and again in the gradient.

Usually the gradient uses what the forward pass computed, and all of it is kept.
Here the gradient computes it again, so only one block is in memory at a time.
"""

import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from relative_attention.ops.backend import run_after
from relative_attention.ops.backend import sizes
from relative_attention.tensor_type import Tensor


class Part(NamedTuple):
    """The function of some successive blocks.

    Neither function may draw random numbers from a generator, which would draw
    others in the gradient.

    Attributes:
        prepare: takes the shared tensors and returns a tuple of float tensors.
            It is called once for all blocks.
        compute: takes the number of a block, an int scalar, its rows and what
            `prepare` returned. Its output has the same shape for all blocks.
    """

    prepare: Callable[..., tuple[Tensor, ...]]
    compute: Callable[..., Tensor]


def map_recomputed(
    parts: Sequence[Part], rows: Tensor, *shared: Tensor
) -> Tensor:
    """Applies functions to blocks of rows, and again to compute gradients.

    Args:
        parts: each has the same number of blocks.
        rows: float tensor `(blocks, ...)`.
        *shared: float tensors, which all blocks use. On TensorFlow only `rows`
            and these tensors have gradients.

    Returns:
        Tensor `(blocks, ...)`.
    """
    apply = {
        "tensorflow": _apply_on_tensorflow,
        "jax": _apply_on_jax,
        "torch": _apply_on_torch,
    }[keras.backend.backend()]
    return apply(parts, rows, *shared)


def _apply_on_jax(
    parts: Sequence[Part], rows: Tensor, *shared: Tensor
) -> Tensor:
    import jax

    count = rows.shape[0] // len(parts)
    numbers = ops.arange(rows.shape[0], dtype="int32")

    def apply(part: Part, *blocks: Tensor) -> Tensor:
        prepared = part.prepare(*shared)
        # In a loop, nothing is computed once for both passes.
        compute = jax.checkpoint(
            lambda block: part.compute(*block, *prepared), prevent_cse=False
        )
        return jax.lax.map(compute, blocks)

    return ops.concatenate(
        [
            jax.checkpoint(functools.partial(apply, part))(
                numbers[first : first + count], rows[first : first + count]
            )
            for first, part in zip(range(0, rows.shape[0], count), parts)
        ]
    )


def _apply_on_torch(
    parts: Sequence[Part], rows: Tensor, *shared: Tensor
) -> Tensor:
    from torch.utils.checkpoint import checkpoint

    count = rows.shape[0] // len(parts)
    outputs = []
    # From the last block to the first. With a causal mask, each block then
    # needs less memory than the block before, and fits where that block was. In
    # the other order glibc took seven times the memory that was in use.
    for index, part in reversed(tuple(enumerate(parts))):
        prepared = part.prepare(*shared)
        for number in reversed(range(index * count, (index + 1) * count)):
            block = (number, rows[number], *prepared)
            output = checkpoint(
                part.compute,
                *block,
                use_reentrant=False,
                preserve_rng_state=False,
            )
            outputs.append(output)
    return ops.stack(outputs[::-1])


def _apply_on_tensorflow(
    parts: Sequence[Part], rows: Tensor, *shared: Tensor
) -> Tensor:
    import tensorflow as tf

    count = sizes(rows)[0] // len(parts)
    firsts = [index * count for index in range(len(parts))]

    @tf.custom_gradient
    def apply(rows: Tensor, *shared: Tensor) -> tuple[Tensor, Callable]:
        outputs: list[Tensor] = []
        for first, part in zip(firsts, parts):
            # Otherwise all parts are computed at the same time.
            ready = [
                run_after(x, outputs[-1]) if outputs else x for x in shared
            ]
            prepared = part.prepare(*ready)
            compute = functools.partial(_compute_block, part, rows, prepared)
            # Otherwise AutoGraph reads the source of what a block calls, each
            # time, which takes ten times as long as a small block.
            outputs.append(
                tf.map_fn(
                    tf.autograph.experimental.do_not_convert(compute),
                    tf.range(first, first + count),
                    fn_output_signature=rows.dtype,
                    parallel_iterations=1,
                )
            )

        def gradient(upstream: Tensor) -> tuple[Tensor, ...]:
            sums = [tf.zeros_like(x) for x in shared]
            d_rows: Any = tf.TensorArray(
                rows.dtype, sizes(rows)[0], element_shape=rows.shape[1:]
            )
            for first, part in zip(firsts, parts):
                ready = [run_after(x, y) for x, y in zip(shared, sums)]
                with tf.GradientTape() as tape:
                    tape.watch(ready)
                    prepared = part.prepare(*ready)
                add = functools.partial(
                    _add_gradients, part, rows, prepared, upstream
                )
                _, d_rows, *d_prepared = tf.while_loop(
                    lambda number, *_, end=first + count: number < end,
                    add,
                    (first, d_rows, *map(tf.zeros_like, prepared)),
                    parallel_iterations=1,
                )
                found = tape.gradient(
                    prepared,
                    ready,
                    d_prepared,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
                sums = [x + y for x, y in zip(sums, found)]
            return d_rows.stack(), *sums

        return tf.concat(outputs, 0), gradient

    return apply(rows, *shared)


def _compute_block(
    part: Part, rows: Tensor, prepared: tuple[Tensor, ...], number: Tensor
) -> Tensor:
    return part.compute(number, rows[number], *prepared)


def _add_gradients(
    part: Part,
    rows: Tensor,
    prepared: tuple[Tensor, ...],
    upstream: Tensor,
    number: Tensor,
    d_rows: Any,
    *sums: Tensor,
) -> tuple:
    """Adds the gradients of a block to those of the blocks before it."""
    import tensorflow as tf

    inputs = [rows[number], *prepared]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = part.compute(number, *inputs)
    d_own, *found = tape.gradient(
        output,
        inputs,
        upstream[number],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return (
        number + 1,
        d_rows.write(number, d_own),
        *map(_sum_of_one_shape, sums, found),
    )


def _sum_of_one_shape(total: Tensor, x: Tensor) -> Tensor:
    result = total + x
    # An axis of one element, added to one of unknown size, would be unknown.
    result.set_shape(total.shape)
    return result
