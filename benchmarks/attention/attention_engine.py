"""An engine that times one attention layer; `attention_speed` starts it."""

import json
import resource
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import relative_attention as ra
from benchmarks.attention.layer_kinds import KERAS
from benchmarks.attention.layer_kinds import PLAIN
from benchmarks.harness.call_times import mean_call_time
from benchmarks.harness.turns import Turns
from relative_attention.tensor_type import Tensor

Pass = Callable[[Tensor], Tensor]


def make_layer(
    kind: str,
    num_heads: int,
    key_dim: int,
    max_relative_position: int,
    dtype: str = "float32",
) -> keras.layers.Layer:
    """Returns the attention layer that a kind stands for.

    Args:
        kind: A string: `KERAS`, `PLAIN`, or an implementation of
            `RelativeSelfAttention`.
        num_heads: An integer.
        key_dim: An integer.
        max_relative_position: An integer.
        dtype: A string, the dtype policy. Defaults to `"float32"`.
    """
    if kind == KERAS:
        return keras.layers.MultiHeadAttention(
            num_heads, key_dim, use_bias=False, dtype=dtype
        )
    has_relations = kind != PLAIN
    return ra.RelativeSelfAttention(
        num_heads,
        key_dim,
        max_relative_position,
        use_key_relations=has_relations,
        use_value_relations=has_relations,
        implementation=kind if has_relations else "transpose",
        dtype=dtype,
    )


def compile_passes(layer: keras.layers.Layer, kind: str) -> tuple[Pass, Pass]:
    """Returns the two passes of a layer, each as one compiled function.

    Args:
        layer: A layer from `make_layer`.
        kind: The kind that it was made from.

    Returns:
        A pair of functions of the inputs: the forward pass, and forward and
        backward pass, which gives the gradients of inputs and weights.
    """
    # Keras' layer takes query and value.
    num_inputs = 2 if kind == KERAS else 1
    if keras.backend.backend() == "jax":
        return _compile_with_jax(layer, num_inputs)
    return _compile_with_tensorflow(layer, num_inputs)


def _compile_with_tensorflow(
    layer: keras.layers.Layer, num_inputs: int
) -> tuple[Pass, Pass]:
    """Returns the passes as `tf.function`s, see `compile_passes`."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def forward(inputs: Tensor) -> Tensor:
        return layer(*[inputs] * num_inputs)

    @tf.function(autograph=False)
    def backward(inputs: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(*[inputs] * num_inputs)
        # As if the layers that follow had sent back the outputs.
        return tape.gradient(
            outputs,
            [inputs, *layer.trainable_variables],
            output_gradients=tf.stop_gradient(outputs),
        )

    return forward, backward


def _compile_with_jax(
    layer: keras.layers.Layer, num_inputs: int
) -> tuple[Pass, Pass]:
    """Returns the passes, compiled by `jax.jit`, see `compile_passes`."""
    import jax

    weights = [variable.value for variable in layer.trainable_variables]
    fixed = [variable.value for variable in layer.non_trainable_variables]

    def run(weights: list[Tensor], inputs: Tensor) -> Tensor:
        outputs, _ = layer.stateless_call(
            weights, fixed, *[inputs] * num_inputs
        )
        return outputs

    @jax.jit
    def backward(weights: list[Tensor], inputs: Tensor) -> Tensor:
        outputs, gradients_of = jax.vjp(run, weights, inputs)
        return gradients_of(outputs)

    forward = jax.jit(run)
    return (
        lambda inputs: forward(weights, inputs),
        lambda inputs: backward(weights, inputs),
    )


def main(
    kind: str,
    num_heads: int,
    key_dim: int,
    batch_size: int,
    length: int,
    seconds: float,
    **options: Any,
) -> None:
    """Times both passes whenever it is the turn of this process.

    Args:
        kind: See `make_layer`, as for `num_heads` and `key_dim`.
        num_heads: An integer.
        key_dim: An integer.
        batch_size: An integer.
        length: An integer, the tokens of a sentence.
        seconds: A float, the least time for each pass in a turn.
        **options: The other arguments of `make_layer`.
    """
    keras.utils.set_random_seed(0)
    layer = make_layer(kind, num_heads, key_dim, **options)
    inputs = keras.ops.convert_to_tensor(
        np.random.default_rng(0).normal(
            size=(batch_size, length, num_heads * key_dim)
        ),
        layer.compute_dtype,
    )
    # One token builds the layer and loads what every layer needs: what the
    # process takes then is not counted as the layer's.
    one_token = inputs[:, :1]
    layer(*[one_token] * (2 if kind == KERAS else 1))
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forward, backward = compile_passes(layer, kind)
    turns = Turns()
    while turns.wait():
        turns.report(
            forward_ms=mean_call_time(lambda: forward(inputs), seconds),
            backward_ms=mean_call_time(lambda: backward(inputs), seconds),
            memory_before=1024 * memory_before,
        )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
