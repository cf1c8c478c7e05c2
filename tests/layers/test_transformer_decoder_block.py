import keras
import numpy as np
import pytest

from relative_attention.layers import CrossAttention
from relative_attention.layers import FeedForward
from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers import TransformerDecoderBlock

B, T, S, D, F, N, H, K, M = 2, 5, 7, 12, 17, 3, 4, 2, 3


def build_block(rng, **arguments):
    """A block with random weights, scales and shifts too."""
    block = TransformerDecoderBlock(
        RelativeSelfAttention(N, H, K, name="self_attention"),
        CrossAttention(N, H, name="cross_attention"),
        FeedForward(F, name="feed_forward"),
        **arguments,
    )
    block.build((None, None, D), (None, None, D))
    for weight in block.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    return block


@pytest.fixture
def inputs(rng):
    return [
        rng.normal(size=(B, length, D)).astype("float32") for length in (T, S)
    ]


@pytest.fixture
def padding_mask():
    return np.arange(S) < np.array([4, S])[:, None]


def normalize(x, layer):
    """Layer normalization in float64."""
    gamma, beta = (np.array(weight, "float64") for weight in layer.weights)
    x = np.array(x, "float64")
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * gamma + beta


@pytest.mark.parametrize(
    "normalize_first, padded",
    [(True, True), (False, False), (False, True)],
    ids=["pre-padded", "post-full", "post-padded"],
)
def test_block_composes_its_sublayers(
    rng, inputs, padding_mask, normalize_first, padded
):
    block = build_block(rng, normalize_first=normalize_first)
    targets, source = inputs
    mask = padding_mask if padded else None
    x = targets.astype("float64")
    for norm, sublayer in (
        (
            block.self_attention_norm,
            lambda x: block.self_attention(x, use_causal_mask=True),
        ),
        (
            block.cross_attention_norm,
            # The source is not normalised here.
            lambda x: block.cross_attention(x, source, padding_mask=mask),
        ),
        (block.feed_forward_norm, block.feed_forward),
    ):
        if normalize_first:
            x = x + np.array(sublayer(normalize(x, norm).astype("float32")))
        else:
            x = normalize(x + np.array(sublayer(x.astype("float32"))), norm)
    np.testing.assert_allclose(
        block(targets, source, source_padding_mask=mask),
        x,
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre", "post"])
def test_decode_steps_are_one_pass(rng, inputs, padding_mask, normalize_first):
    block = build_block(rng, normalize_first=normalize_first)
    _, source = inputs
    # M hypotheses a sentence, each as if it stood alone.
    targets = rng.normal(size=(B, M, T, D)).astype("float32")
    expected = np.stack(
        [
            block(targets[:, m], source, source_padding_mask=padding_mask)
            for m in range(M)
        ],
        axis=1,
    )
    cache = block.start_cache(source)
    for position in range(T):
        before = keras.tree.map_structure(np.array, cache)
        outputs, extended = block.decode_step(
            keras.ops.array(targets[:, :, position]),
            cache,
            position,
            source_padding_mask=padding_mask,
        )
        np.testing.assert_allclose(
            outputs, expected[:, :, position], rtol=1e-5, atol=1e-5
        )
        # The old cache is left as it was.
        keras.tree.map_structure(np.testing.assert_array_equal, cache, before)
        cache = extended
        if position == 1:
            cache = block.merge_cache(cache)
    keys = cache["self_attention"]
    assert keys.key.shape == (B, N, 2 * M, H)
    assert keys.recent_key.shape == (B, N, (T - 2) * M, H)


def test_dropout_is_active_only_in_training(rng, inputs):
    block = build_block(rng, dropout=0.5, seed=3)
    expected = np.array(block(*inputs))
    np.testing.assert_array_equal(block(*inputs, training=False), expected)
    assert (np.array(block(*inputs, training=True)) != expected).any()


def test_scores_are_those_of_both_attentions(rng, inputs, padding_mask):
    block = build_block(rng)
    targets, source = inputs
    outputs, self_scores, cross_scores = block(
        targets,
        source,
        source_padding_mask=padding_mask,
        return_attention_scores=True,
    )
    hidden, expected = block.self_attention(
        targets, use_causal_mask=True, return_attention_scores=True
    )
    np.testing.assert_array_equal(self_scores, expected)
    hidden = block.self_attention_norm(targets + np.array(hidden))
    _, expected = block.cross_attention(
        hidden,
        source,
        padding_mask=padding_mask,
        return_attention_scores=True,
    )
    np.testing.assert_array_equal(cross_scores, expected)
    np.testing.assert_allclose(
        outputs,
        block(targets, source, source_padding_mask=padding_mask),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "normalize_first, return_scores",
    [(True, True), pytest.param(False, False, marks=pytest.mark.large)],
    ids=["pre", "post"],
)
def test_block_behaves_as_a_keras_layer(
    inputs, run_layer_test, normalize_first, return_scores
):
    block = TransformerDecoderBlock(
        RelativeSelfAttention(N, H, K, seed=1),
        CrossAttention(N, H, seed=2),
        FeedForward(F, dropout=0.25, seed=3),
        dropout=0.25,
        normalize_first=normalize_first,
        layer_norm_epsilon=1e-3,
        seed=4,
    )
    run_layer_test(
        block,
        inputs,
        num_weights=6 + 4 + 4 + 3 * 2,
        return_attention_scores=return_scores,
    )
