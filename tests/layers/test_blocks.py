"""Encoder and decoder blocks are their sublayers, composed."""

import functools

import numpy as np
import pytest

import relative_attention as ra

B, T, S, D, F, N, H, K = 2, 5, 7, 12, 17, 3, 4, 2
KINDS = pytest.mark.parametrize("kind", ["encoder", "decoder"])
NORMS = pytest.mark.parametrize(
    "normalize_first", [True, False], ids=["pre", "post"]
)


@pytest.fixture
def build_block(randomize):
    """`build_block(kind)`: a block with random weights."""

    def build(kind, **arguments):
        shape = (None, None, D)
        attention = ra.RelativeSelfAttention(N, H, K, name="self_attention")
        feed_forward = ra.FeedForward(F, name="feed_forward")
        if kind == "encoder":
            block = ra.TransformerEncoderBlock(
                attention, feed_forward, **arguments
            )
            block.build(shape)
        else:
            cross = ra.CrossAttention(N, H, name="cross_attention")
            block = ra.TransformerDecoderBlock(
                attention, cross, feed_forward, **arguments
            )
            block.build(shape, shape)
        return randomize(block)

    return build


@pytest.fixture
def inputs(rng):
    return [
        rng.normal(size=(B, length, D)).astype("float32") for length in (T, S)
    ]


def normalize(x, layer):
    """Layer normalization in float64."""
    gamma, beta = (np.array(weight, "float64") for weight in layer.weights)
    x = np.array(x, "float64")
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * gamma + beta


@KINDS
@NORMS
@pytest.mark.parametrize("padded", [True, False])
def test_block_composes_its_sublayers(
    build_block, inputs, kind, normalize_first, padded
):
    block = build_block(kind, normalize_first=normalize_first)
    targets, source = inputs
    length = T if kind == "encoder" else S
    mask = np.arange(length) < np.array([3, length])[:, None]
    mask = mask if padded else None
    partial = functools.partial
    if kind == "encoder":
        mask = mask if mask is None else mask[:, None]
        call = partial(block, targets, attention_mask=mask)
        attend = [partial(block.self_attention, attention_mask=mask)]
        norms = [block.self_attention_norm]
    else:
        call = partial(block, *inputs, source_padding_mask=mask)
        attend = [
            partial(block.self_attention, use_causal_mask=True),
            # The source is not normalized here.
            partial(
                block.cross_attention, encoder_outputs=source, padding_mask=mask
            ),
        ]
        norms = [block.self_attention_norm, block.cross_attention_norm]
    sublayers = [*attend, block.feed_forward]
    x = targets.astype("float64")
    for norm, sublayer in zip(
        [*norms, block.feed_forward_norm], sublayers, strict=True
    ):
        if normalize_first:
            x = x + np.array(sublayer(normalize(x, norm).astype("float32")))
        else:
            x = normalize(x + np.array(sublayer(x.astype("float32"))), norm)
    outputs, *scores = call(return_attention_scores=True)
    for result in (call(), outputs):
        np.testing.assert_allclose(result, x, rtol=1e-5, atol=1e-5)
    shapes = [(B, N, T, T), (B, N, T, S)]
    assert [tuple(x.shape) for x in scores] == shapes[: len(scores)]
    for array in scores:
        np.testing.assert_allclose(np.array(array).sum(-1), 1, rtol=1e-5)


@NORMS
def test_dropout_falls_on_sublayer_outputs_in_training(
    build_block, inputs, normalize_first
):
    block = build_block(
        "encoder", dropout=0.5, normalize_first=normalize_first, seed=3
    )
    tokens = inputs[0]
    expected = np.array(block(tokens))
    np.testing.assert_array_equal(block(tokens, training=False), expected)
    first, second = (np.array(block(tokens, training=True)) for _ in range(2))
    assert (first != expected).any()
    assert (first != second).any()
    if normalize_first:
        # Where both sublayers' outputs are dropped, the input is left.
        share = (first == tokens).mean()
        assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / tokens.size)
