"""Dropout and normalization of encoder and decoder blocks.

What they compute is compared with tensor2tensor's, normalization first and
last, in `tests/convert/test_goldens.py`.
"""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.blocks import LayerNormalization
from tests.layers.paper import normal


def test_dropout_falls_on_sublayer_outputs_in_training(rng, randomize):
    block = ra.TransformerEncoderBlock(
        ra.RelativeSelfAttention(3, 4, 2),
        ra.FeedForward(17),
        dropout=0.5,
        normalize_first=True,
        seed=3,
    )
    tokens = normal(rng, 2, 5, 12)
    randomize(block, 12)
    expected = np.array(block(tokens))
    np.testing.assert_array_equal(block(tokens, training=False), expected)
    first, second = (np.array(block(tokens, training=True)) for _ in range(2))
    assert (first != expected).any()
    assert (first != second).any()
    # Where both sublayers' outputs are dropped, the input is left.
    share = (first == tokens).mean()
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / tokens.size)


@pytest.mark.only_on("tensorflow", "torch", reason="JAX rounds to float32")
def test_normalization_keeps_float64(rng):
    x, gamma, beta = rng.normal(size=(5, 7)), rng.random(7), rng.random(7)
    layer = LayerNormalization(epsilon=1e-6, dtype="float64")
    layer.build(x.shape)
    layer.set_weights([gamma, beta])
    deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    expected = (x - x.mean(-1, keepdims=True)) / deviation * gamma + beta
    # Sums of seven, a root and a few products.
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(layer(x)), expected, rtol=0, atol=1e-14
    )
