"""Ranks, widths and sizes that a layer cannot take, each in one line."""

import json

import numpy as np
import pytest

import relative_attention as ra

B, T, D, N, H = 2, 5, 12, 3, 4


def encoder_block(**arguments):
    return ra.TransformerEncoderBlock(
        ra.RelativeSelfAttention(N, H, 2), ra.FeedForward(17), **arguments
    )


def decoder_block(**arguments):
    return ra.TransformerDecoderBlock(
        ra.RelativeSelfAttention(N, H, 2),
        ra.CrossAttention(N, H),
        ra.FeedForward(17),
        **arguments,
    )


# The layers, and whether their weights have the width of the inputs.
LAYERS = {
    "relative": (lambda: ra.RelativeSelfAttention(N, H, 2), True),
    "global": (lambda: ra.RelativeGlobalAttention(N, H, 2), True),
    "relation_aware": (lambda: ra.RelationAwareSelfAttention(N, H, 4), True),
    "cross": (lambda: ra.CrossAttention(N, H), True),
    "encoder_block": (encoder_block, True),
    "decoder_block": (decoder_block, True),
    "learned": (lambda: ra.LearnedPositions(19), True),
    "sinusoidal": (lambda: ra.SinusoidalPositions(), False),
    "target_space": (lambda: ra.TargetSpaceEmbedding(), True),
    "feed_forward": (lambda: ra.FeedForward(17), True),
}


def call(layer, name, inputs):
    other = {
        "relation_aware": [np.zeros((T, T), "int32")],
        "cross": [np.zeros((B, T, D), "float32")],
        "decoder_block": [np.zeros((B, T, D), "float32")],
    }
    return layer(np.zeros(inputs, "float32"), *other.get(name, []))


@pytest.mark.parametrize("name", LAYERS)
def test_rank_and_width_are_refused_by_keras_own_words(name):
    make, has_width = LAYERS[name]
    layer = make()
    wrong = (D,) if name == "feed_forward" else (T, D)
    for _ in range(2):  # Before it is built, and after.
        with pytest.raises(ValueError) as error:
            call(layer, name, wrong)
        assert "is incompatible with the layer: expected" in str(error.value)
        assert f"found ndim={len(wrong)}" in str(error.value)
        call(layer, name, (B, T, D))
    if has_width:
        with pytest.raises(ValueError) as error:
            call(layer, name, (B, T, D + 1))
        assert "is incompatible with the layer: expected" in str(error.value)
        assert f"to have value {D}, but received" in str(error.value)


@pytest.mark.parametrize("name", [n for n in LAYERS if LAYERS[n][1]])
def test_width_that_is_not_known_is_refused(name):
    layer = LAYERS[name][0]()
    shapes = [(None, None, None)] * (
        2 if name in ("cross", "decoder_block") else 1
    )
    with pytest.raises(ValueError, match="last axis of `inputs` must have"):
        layer.build(*shapes)


INT = np.int64
FROM_NUMPY = {
    "relative": lambda: ra.RelativeSelfAttention(
        INT(N), INT(H), INT(2), value_dim=INT(7), output_shape=INT(13)
    ),
    "global": lambda: ra.RelativeGlobalAttention(INT(N), INT(H), INT(2)),
    "relation_aware": lambda: ra.RelationAwareSelfAttention(
        INT(N), INT(H), INT(4), no_relation=INT(-1)
    ),
    "cross": lambda: ra.CrossAttention(INT(N), INT(H), dropout=np.float32(0.5)),
    "embedding": lambda: ra.TokenEmbedding(INT(23), INT(D)),
    "learned": lambda: ra.LearnedPositions(INT(19)),
    "feed_forward": lambda: ra.FeedForward(INT(17), dropout=np.float64(0.1)),
    "encoder_block": lambda: encoder_block(dropout=np.float32(0.5)),
    "sinusoidal": lambda: ra.SinusoidalPositions(np.int64(10_000)),
}


@pytest.mark.parametrize("name", FROM_NUMPY)
def test_numbers_of_numpy_are_taken_and_stored_as_pythons(name):
    layer = FROM_NUMPY[name]()
    config = json.loads(json.dumps(layer.get_config()))
    type(layer).from_config(config)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ra.FeedForward(0), "`intermediate_dim` must be a positive"),
        (lambda: ra.FeedForward(8, dropout="0.1"), "`dropout` must be a rate"),
        (lambda: ra.CrossAttention(2, 4, dropout="0.1"), "`dropout` must be"),
        (lambda: ra.TokenEmbedding(23.0, 8), "`vocabulary_size` must be a pos"),
        (lambda: ra.TokenEmbedding(23, 0), "`hidden_dim` must be a positive"),
        (lambda: ra.LearnedPositions("9"), "`max_length` must be a positive"),
        (lambda: ra.SinusoidalPositions(0), "`max_wavelength` must be > 0"),
        (lambda: encoder_block(dropout=None), "`dropout` must be a rate"),
        (
            lambda: encoder_block(normalize_first="false"),
            "`normalize_first` must be True or False",
        ),
        (
            lambda: ra.RelativeSelfAttention(2, 4, 2, use_bias="no"),
            "`use_bias` must be True or False",
        ),
        (
            lambda: ra.RelativeGlobalAttention(2, 4, 2, causal=1),
            "`causal` must be True or False",
        ),
        (
            lambda: ra.TransformerEncoderBlock(3, ra.FeedForward(17)),
            "`self_attention` must be a layer",
        ),
        (
            lambda: ra.TransformerDecoderBlock(
                ra.RelativeSelfAttention(2, 4, 2), None, ra.FeedForward(17)
            ),
            "`cross_attention` must be a layer",
        ),
    ],
)
def test_wrong_argument_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        make()
    assert "\n" not in str(error.value)
