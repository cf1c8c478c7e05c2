"""Dropout of encoder and decoder blocks.

What they compute is compared with tensor2tensor's, normalization first and
last, in `tests/convert/test_goldens.py`.
"""

import numpy as np

import relative_attention as ra
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
