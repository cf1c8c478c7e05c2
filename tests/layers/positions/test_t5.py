"""T5's bias against loops of its buckets in float64."""

import math

import numpy as np
import pytest

import relative_attention as ra
from tests.layers.paper import assert_same
from tests.layers.paper import attention
from tests.layers.paper import distances
from tests.layers.paper import weights_of

B, T, D, N, H, H_V = 2, 7, 11, 3, 4, 5
# More tokens than there are distances with a bucket of their own.
LONG = 300
CAUSAL = pytest.mark.parametrize(
    "is_causal", [False, True], ids=["full", "causal"]
)


@np.vectorize
def bucket_by_loops(distance, bidirectional):
    """`_relative_position_bucket` of mesh-tensorflow's T5, for one pair."""
    num_buckets, first = 32, 0
    if bidirectional:
        num_buckets = 16
        first = 16 if distance > 0 else 0
        n = abs(distance)
    else:
        n = max(-distance, 0)
    max_exact = num_buckets // 2
    if n < max_exact:
        return first + n
    share = math.log(n / max_exact) / math.log(128 / max_exact)
    large = max_exact + math.floor(share * (num_buckets - max_exact))
    return first + min(large, num_buckets - 1)


def biases_alone(length, bidirectional):
    """The bias `(N, T, T)` where content is nothing, up to a row's constant.

    The logarithm of the scores, which is zero from each token to itself.
    """
    layer = ra.SelfAttention(
        1, H, "t5", bidirectional=bidirectional, kernel_initializer="zeros"
    )
    layer.build((None, None, D))
    # Buckets tell themselves apart by their numbers.
    layer.relative_attention_bias.assign(np.arange(32)[:, None] / 8)
    _, scores = layer(
        np.zeros((1, length, D), "float32"), return_attention_scores=True
    )
    bias = 8 * np.log(np.array(scores[0, 0], "float64"))
    return bias - np.diagonal(bias)[:, None]


# === Buckets ===


@CAUSAL
def test_buckets_are_those_of_the_paper(is_causal):
    buckets = biases_alone(LONG, bidirectional=not is_causal)
    np.testing.assert_allclose(
        buckets, bucket_by_loops(distances(LONG), not is_causal), atol=1e-3
    )


# === The layer ===


@CAUSAL
def test_layer_is_the_attention_of_the_paper(rng, randomize, is_causal):
    layer = ra.SelfAttention(
        N, H, "t5", value_dim=H_V, bidirectional=not is_causal
    )
    weights = weights_of(randomize(layer, D))
    inputs = rng.normal(size=(B, T, D))
    buckets = bucket_by_loops(distances(T), not is_causal)
    expected = attention(
        weights,
        inputs,
        mask=np.tri(T, dtype=bool) if is_causal else True,
        bias=weights["relative_attention_bias"][buckets].transpose(2, 0, 1),
    )
    result = layer(inputs.astype("float32"), use_causal_mask=is_causal)
    assert_same(result, expected["outputs"])


def test_table_is_named_and_starts_as_documented():
    layer = ra.SelfAttention(64, 4, ra.positions.T5Bias())
    layer.build((None, None, D))
    table = layer.relative_attention_bias
    assert table.name == "relative_attention_bias"
    assert table.shape == (32, 64)
    # Within five standard errors of a standard deviation of 1/16.
    tolerance = 5 / np.sqrt(32 * 64)
    np.testing.assert_allclose(16 * np.std(np.array(table)), 1, atol=tolerance)
    np.testing.assert_allclose(16 * np.mean(np.array(table)), 0, atol=tolerance)
