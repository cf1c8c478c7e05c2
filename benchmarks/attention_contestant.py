"""Times one attention layer in turns; started by `attention_speed.py`."""

import json
import resource
import sys
import time

import keras
import numpy as np
import turns

import relative_attention as ra

_KERAS = "keras"


def make_layer(kind, num_heads, key_dim, max_relative_position, dtype):
    if kind == _KERAS:
        return keras.layers.MultiHeadAttention(
            num_heads, key_dim, use_bias=False, dtype=dtype
        )
    has_relations = kind != "none"
    return ra.RelativeSelfAttention(
        num_heads,
        key_dim,
        max_relative_position,
        use_key_relations=has_relations,
        use_value_relations=has_relations,
        implementation=kind if has_relations else "transpose",
        dtype=dtype,
    )


def compiled(layer, kind):
    """Two functions of inputs: outputs, and all gradients."""
    arguments = 2 if kind == _KERAS else 1
    if keras.backend.backend() == "jax":
        return _compiled_by_jax(layer, arguments)
    return _compiled_by_tensorflow(layer, arguments)


def _compiled_by_tensorflow(layer, arguments):
    import tensorflow as tf

    @tf.function(autograph=False)
    def forward(inputs):
        return layer(*[inputs] * arguments)

    @tf.function(autograph=False)
    def backward(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(*[inputs] * arguments)
        # As if the layers that follow had sent back the outputs.
        return tape.gradient(
            outputs,
            [inputs, *layer.trainable_variables],
            output_gradients=tf.stop_gradient(outputs),
        )

    return forward, backward


def _compiled_by_jax(layer, arguments):
    import jax

    weights = [variable.value for variable in layer.trainable_variables]
    fixed = [variable.value for variable in layer.non_trainable_variables]

    def run(weights, inputs):
        outputs, _ = layer.stateless_call(weights, fixed, *[inputs] * arguments)
        return outputs

    @jax.jit
    def backward(weights, inputs):
        outputs, gradients_of = jax.vjp(run, weights, inputs)
        return gradients_of(outputs)

    forward = jax.jit(run)
    return (
        lambda inputs: forward(weights, inputs),
        lambda inputs: backward(weights, inputs),
    )


def milliseconds(function, inputs, seconds):
    """Mean time of a call, over calls for about so many seconds."""
    start = time.perf_counter()
    count = 0
    while not count or time.perf_counter() - start < seconds:
        _wait(function(inputs))
        count += 1
    return 1000 * (time.perf_counter() - start) / count


def _wait(outputs):
    """Until what was computed is there."""
    first = keras.tree.flatten(outputs)[0]
    if keras.backend.backend() == "jax":
        first.block_until_ready()
    else:
        first.numpy()


def main(
    kind,
    batch_size,
    length,
    num_heads,
    key_dim,
    max_relative_position,
    dtype,
    seconds,
):
    keras.utils.set_random_seed(0)
    layer = make_layer(kind, num_heads, key_dim, max_relative_position, dtype)
    hidden_dim = num_heads * key_dim
    inputs = keras.ops.convert_to_tensor(
        np.random.default_rng(0).normal(size=(batch_size, length, hidden_dim)),
        layer.compute_dtype,
    )
    # On a graph of one token: what memory the process has without the layer.
    small = inputs[:, :1]
    layer(*[small] * (2 if kind == _KERAS else 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forward, backward = compiled(layer, kind)
    my_turns = turns.Turns()
    while my_turns.wait():
        my_turns.report(
            forward=milliseconds(forward, inputs, seconds),
            backward=milliseconds(backward, inputs, seconds),
            memory_before=1024 * before,
        )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
