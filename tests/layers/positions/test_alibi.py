"""ALiBi against the paper's definition in float64."""

import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from tests.layers.paper import assert_same
from tests.layers.paper import attention
from tests.layers.paper import distances
from tests.layers.paper import weights_of

B, T, D, H, H_V = 2, 6, 7, 4, 5

# Section 3: for 8 heads 1/2, 1/4, ..., 1/256. Other counts as in the paper's
# code: those of the power of two below, then every other of the one above.
SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    3: [2**-4, 2**-8, 2**-2],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    8: [2**-n for n in range(1, 9)],
    12: [
        *(2**-n for n in range(1, 9)),
        *(2**-n for n in (0.5, 1.5, 2.5, 3.5)),
    ],
}


def scores_alone(num_heads, length, is_causal):
    """Scores where content is nothing: the softmax of the bias."""
    layer = ra.SelfAttention(num_heads, H, "alibi", kernel_initializer="zeros")
    _, scores = layer(
        np.zeros((1, length, D)),
        use_causal_mask=is_causal,
        return_attention_scores=True,
    )
    return np.array(scores)


@pytest.mark.parametrize("num_heads", SLOPES)
def test_scores_fall_by_the_slopes_of_the_paper(num_heads):
    # Of a query, the score of itself over that of the key before is
    # exp(slope).
    scores = scores_alone(num_heads, 2, is_causal=True)[0, :, 1]
    np.testing.assert_allclose(
        np.log(scores[:, 1] / scores[:, 0]), SLOPES[num_heads], atol=1e-6
    )


@pytest.mark.parametrize("num_heads", [2, 3])
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_layer_is_the_attention_of_the_paper(
    rng, randomize, num_heads, is_causal
):
    layer = ra.SelfAttention(
        num_heads, H, "alibi", value_dim=H_V, bidirectional=not is_causal
    )
    inputs = rng.normal(size=(B, T, D))
    slopes = np.array(SLOPES[num_heads])[:, None, None]
    expected = attention(
        weights_of(randomize(layer, D)),
        inputs,
        mask=np.tri(T, dtype=bool) if is_causal else True,
        bias=-slopes * np.abs(distances(T)),
    )
    result = layer(inputs.astype("float32"), use_causal_mask=is_causal)
    assert_same(result, expected["outputs"])


@pytest.mark.only_on(
    "tensorflow", "torch", reason="JAX has no float64 by default"
)
def test_float64_keeps_its_digits(rng, randomize):
    layer = ra.SelfAttention(12, H, "alibi", dtype="float64")
    inputs = rng.normal(size=(B, T, D))
    expected = attention(
        weights_of(randomize(layer, D)),
        inputs,
        bias=-np.array(SLOPES[12])[:, None, None] * np.abs(distances(T)),
    )
    assert_same(layer(inputs), expected["outputs"], 1e-13)


@pytest.mark.parametrize("num_heads", [1, 4, 5, 12])
def test_causal_scores_are_those_of_keras_hub(num_heads):
    hub = pytest.importorskip("keras_hub")
    bias = hub.layers.AlibiBias()(np.zeros((1, num_heads, T, T), "float32"))
    # It counts from the last key, which a softmax does not see.
    hidden = np.where(np.tri(T), 0, -np.inf)
    expected = ops.softmax(np.array(bias) + hidden)
    np.testing.assert_allclose(
        scores_alone(num_heads, T, is_causal=True), expected, atol=1e-6
    )
