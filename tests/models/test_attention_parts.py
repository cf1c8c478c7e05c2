"""The parts of attention of a whole model."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.positions import POSITION_ENCODINGS
from relative_attention.positions import PositionEncoding

MODELS = {
    "relative": {},
    "pre-norm, a table per head": {
        "normalize_first": True,
        "share_relations_across_heads": False,
    },
    "relative, K = 0": {"max_relative_position": 0},
    **{name: {"position_encoding": name} for name in POSITION_ENCODINGS},
}


def model_of(**overrides):
    keras.utils.set_random_seed(1803)
    return ra.Transformer.from_preset(
        "transformer_tiny_relative",
        **{
            "vocabulary_size": 13,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "hidden_dim": 12,
            "intermediate_dim": 16,
            "num_heads": 2,
            "max_relative_position": 3,
            **overrides,
        },
    )


@pytest.fixture
def inputs(rng):
    source = rng.integers(2, 13, (2, 7)).astype("int32")
    source[1, 5:] = 0
    target = rng.integers(2, 13, (2, 5)).astype("int32")
    target[:, 0] = 0
    return {"source_token_ids": source, "target_token_ids": target}


@pytest.mark.parametrize("name", MODELS, ids=str)
def test_scores_are_those_of_the_model(name, inputs):
    model = model_of(**MODELS[name])
    parts = model.attention_parts(inputs)
    expected = model.attention_scores(inputs)
    names = POSITION_ENCODINGS[model.config.position_encoding]
    adds = names.attention_class().logits is not PositionEncoding.logits
    assert parts.keys() == expected.keys()
    for kind, blocks in parts.items():
        assert len(blocks) == len(expected[kind]) == 2
        for block, scores in zip(blocks, expected[kind]):
            np.testing.assert_allclose(block.scores, scores, atol=1e-5)
            has_position = np.asarray(block.position_logits).any()
            is_self = kind != "cross"
            assert has_position == (is_self and adds)
            has_rows = is_self and model.config.is_relative
            assert (block.distance_logits is not None) == has_rows


def test_inputs_that_are_none_are_refused():
    with pytest.raises(ValueError, match="source_token_ids"):
        model_of().attention_parts({"target_token_ids": np.zeros((1, 1))})
