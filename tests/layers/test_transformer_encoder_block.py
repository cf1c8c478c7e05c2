import numpy as np
import pytest

from relative_attention.layers import FeedForward
from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers import TransformerEncoderBlock

B, T, D, F, N, H, K = 2, 5, 12, 17, 3, 4, 2


def build_block(rng, **arguments):
    """A block with random weights, scales and shifts too."""
    block = TransformerEncoderBlock(
        RelativeSelfAttention(N, H, K, name="self_attention"),
        FeedForward(F, name="feed_forward"),
        **arguments,
    )
    block.build((None, None, D))
    for weight in block.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    return block


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


def normalize(x, layer):
    """Layer normalization in float64."""
    gamma, beta = (np.array(weight, "float64") for weight in layer.weights)
    x = np.array(x, "float64")
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * gamma + beta


@pytest.mark.parametrize(
    "normalize_first, masked",
    [(True, True), (False, False), (False, True)],
    ids=["pre-masked", "post-full", "post-masked"],
)
def test_block_composes_its_sublayers(rng, inputs, normalize_first, masked):
    block = build_block(rng, normalize_first=normalize_first)
    mask = np.ones((B, 1, T), bool)
    mask[0, 0, 3:] = False
    mask = mask if masked else None
    x = inputs.astype("float64")
    for norm, sublayer in (
        (
            block.self_attention_norm,
            lambda x: block.self_attention(x, attention_mask=mask),
        ),
        (block.feed_forward_norm, block.feed_forward),
    ):
        if normalize_first:
            x = x + np.array(sublayer(normalize(x, norm).astype("float32")))
        else:
            x = normalize(x + np.array(sublayer(x.astype("float32"))), norm)
    np.testing.assert_allclose(
        block(inputs, attention_mask=mask), x, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre", "post"])
def test_dropout_falls_on_sublayer_outputs_in_training(
    rng, inputs, normalize_first
):
    block = build_block(
        rng, dropout=0.5, normalize_first=normalize_first, seed=3
    )
    expected = np.array(block(inputs))
    np.testing.assert_array_equal(block(inputs, training=False), expected)
    first, second = (np.array(block(inputs, training=True)) for _ in range(2))
    assert (first != expected).any()
    assert (first != second).any()
    if normalize_first:
        # Where both sublayers' outputs are dropped, the input is left.
        share = (first == inputs).mean()
        assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / inputs.size)


def test_scores_are_those_of_self_attention(rng, inputs):
    block = build_block(rng)
    mask = np.tri(T, dtype=bool)[None]
    outputs, scores = block(
        inputs, attention_mask=mask, return_attention_scores=True
    )
    _, expected = block.self_attention(
        inputs, attention_mask=mask, return_attention_scores=True
    )
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_allclose(
        outputs, block(inputs, attention_mask=mask), atol=1e-5
    )


@pytest.mark.parametrize(
    "normalize_first, return_scores",
    [(True, True), pytest.param(False, False, marks=pytest.mark.large)],
    ids=["pre", "post"],
)
def test_block_behaves_as_a_keras_layer(
    inputs, run_layer_test, normalize_first, return_scores
):
    block = TransformerEncoderBlock(
        RelativeSelfAttention(
            N, H, K, share_relations_across_heads=False, seed=1
        ),
        FeedForward(F, dropout=0.25, seed=2),
        dropout=0.25,
        normalize_first=normalize_first,
        layer_norm_epsilon=1e-3,
        seed=3,
    )
    run_layer_test(
        block,
        [inputs],
        num_weights=6 + 4 + 2 * 2,
        return_attention_scores=return_scores,
    )
