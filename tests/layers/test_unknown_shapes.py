"""Every layer in one graph for all sizes gives what it gives outside of it."""

import functools
import inspect
import itertools

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention import layers
from tests.layers.paper import normal

pytestmark = pytest.mark.only_on("tensorflow", reason="it is about tf.function")

D, N, H, K, LABELS = 6, 2, 4, 2, 3
LENGTHS = (0, 1, 2, 5)
SIZES = list(itertools.product((0, 1, 2), LENGTHS))


def relative(num_heads=N, reach=K, **options):
    return layers.RelativeSelfAttention(num_heads, H, reach, **options)


SELF_ATTENTION = {
    "SelfAttention": lambda **options: layers.SelfAttention(N, H, **options),
    "RelativeSelfAttention": relative,
    "RelativeSelfAttention, of one head": lambda **options: relative(
        num_heads=1, **options
    ),
    "RelativeSelfAttention, clipped at 0": lambda **options: relative(
        reach=0, **options
    ),
    "RelativeSelfAttention, a table a head": lambda **options: relative(
        share_relations_across_heads=False, **options
    ),
    "RelativeSelfAttention, transpose": lambda **options: relative(
        implementation="transpose", **options
    ),
    "RelativeGlobalAttention": lambda **options: layers.RelativeGlobalAttention(
        N, H, K, use_value_relations=True, **options
    ),
}
BUILD = {
    **SELF_ATTENTION,
    "CrossAttention": lambda **options: layers.CrossAttention(N, H, **options),
    "Dropout": lambda dropout=0.0: layers.Dropout(dropout),
    "FeedForward": lambda **options: layers.FeedForward(7, **options),
    "LearnedPositions": lambda **_: layers.LearnedPositions(3),
    "RelationAwareSelfAttention": lambda **options: (
        layers.RelationAwareSelfAttention(N, H, LABELS, **options)
    ),
    "SinusoidalPositions": lambda **_: layers.SinusoidalPositions(),
    "TargetSpaceEmbedding": lambda **_: layers.TargetSpaceEmbedding(),
    "TokenEmbedding": lambda **_: layers.TokenEmbedding(LABELS, D),
    "TransformerDecoderBlock": lambda **options: layers.TransformerDecoderBlock(
        relative(**options),
        layers.CrossAttention(N, H, **options),
        layers.FeedForward(7, **options),
        **options,
    ),
    "TransformerEncoderBlock": lambda **options: layers.TransformerEncoderBlock(
        relative(**options), layers.FeedForward(7, **options), **options
    ),
}


def test_every_layer_is_tried():
    assert {name.split(",")[0] for name in BUILD} == set(ra.layers.__all__)


@pytest.fixture
def build(randomize):
    def build(name, **options):
        layer = BUILD[name](**options)
        layer(*arguments(name, np.random.default_rng(7), 2, 3))
        return randomize(layer)

    return build


def arguments(name, rng, batch_size, length):
    """Returns the tensors of a call, masks among them."""
    inputs = normal(rng, batch_size, length, D)
    pairs = (batch_size, length, length)
    mask = rng.random(pairs) < 0.7
    if name == "TokenEmbedding":
        return [rng.integers(0, LABELS, inputs.shape[:2])]
    if name == "RelationAwareSelfAttention":
        return [inputs, rng.integers(0, LABELS, pairs), mask]
    if name in ("CrossAttention", "TransformerDecoderBlock"):
        # No source is as long as the target.
        source = normal(rng, batch_size, (length + 2) % 4, D)
        return [inputs, source, rng.random(source.shape[:2]) < 0.7]
    if name == "TransformerEncoderBlock":
        return [inputs, mask]
    if name in SELF_ATTENTION:
        heads = 1 if "one head" in name else N
        return [inputs, rng.random((batch_size, heads, length, length)) < 0.7]
    return [inputs]


def assert_graph_is_eager(function, calls):
    """Compares one graph with eager calls on known sizes.

    Args:
        function: function of arrays.
        calls: list of lists of arrays, the same but for their sizes.
    """
    import tensorflow as tf

    def spec(array):
        shape = [None] * array.ndim
        if array.dtype == "float32":
            shape[-1] = D
        return tf.TensorSpec(shape, array.dtype)

    graph = tf.function(function, input_signature=[*map(spec, calls[0])])
    for arrays in calls:
        for result, expected in zip(
            keras.tree.flatten(graph(*arrays)),
            keras.tree.flatten(function(*map(tf.constant, arrays))),
            strict=True,
        ):
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", BUILD)
def test_outputs_and_gradients_in_training(rng, build, name):
    import tensorflow as tf

    layer = build(name, dropout=0.5)
    seeds = [v for v in layer.non_trainable_variables if "seed" in v.path]
    weights = [weight.value for weight in layer.trainable_weights]
    takes_training = "training" in inspect.signature(layer.call).parameters
    options = {"training": True} if takes_training else {}

    def train(*tensors):
        for seed in seeds:
            seed.assign(np.full(seed.shape, 7))
        floats = [x for x in tensors if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = layer(*tensors, **options)
            loss = tf.reduce_sum(outputs**2)
        gradients = tape.gradient(
            loss, floats + weights, unconnected_gradients="zero"
        )
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    assert_graph_is_eager(
        train, [arguments(name, rng, *sizes) for sizes in SIZES]
    )


@pytest.mark.parametrize("name", SELF_ATTENTION)
def test_masks_of_keras_and_of_later_keys(rng, build, name):
    layer = build(name)
    calls = [
        [normal(rng, *sizes, D), rng.random(sizes) < 0.7] for sizes in SIZES
    ]

    def attend(x, mask, **options):
        return layer(x, mask=mask, use_causal_mask=True, **options)

    assert_graph_is_eager(attend, calls)
    with_scores = functools.partial(attend, return_attention_scores=True)
    assert_graph_is_eager(with_scores, calls)
