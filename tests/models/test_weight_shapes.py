"""The shapes that a config stands for, beside those of a model."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.models.weight_shapes import check_shapes
from relative_attention.models.weight_shapes import check_size
from relative_attention.models.weight_shapes import weight_shapes
from relative_attention.models.weights import weight_name

# Distinct, so that no transposition passes unseen.
SIZES = {
    "vocabulary_size": 11,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "hidden_dim": 12,
    "intermediate_dim": 13,
    "num_heads": 2,
    "key_dim": 4,
    "value_dim": 5,
    "max_relative_position": 3,
    "max_length": 17,
}


def config_of(**fields):
    return ra.TransformerConfig(**{**SIZES, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        *({"position_encoding": name} for name in POSITION_ENCODINGS),
        {"share_relations_across_heads": False, "use_key_relations": False},
        {"normalize_first": True, "use_value_relations": False},
        {"attention_bias": True, "output_bias": True},
        {"share_embeddings": "target", "source_vocabulary_size": 7},
        {"share_embeddings": "source_target", "start_token_id": 2},
        {"share_embeddings": "none", "use_target_space_embedding": True},
        {"key_dim": None, "value_dim": None},
    ],
    ids=str,
)
def test_shapes_are_those_of_the_model(fields):
    config = config_of(**fields)
    model = ra.Transformer(config)
    shapes = {weight_name(w): tuple(w.shape) for w in model.weights}
    assert dict(weight_shapes(config)) == shapes
    check_shapes(config, shapes, "a file")
    numbers = sum(int(np.prod(shape)) for shape in shapes.values())
    check_size(config, numbers, "a file")
    with pytest.raises(ra.InputError, match="of a file cannot be those"):
        check_size(config, numbers - 1, "a file")


def test_missing_extra_or_misshapen_weight_is_named():
    config = config_of()
    shapes = dict(weight_shapes(config))
    name = "encoder_block_1/self_attention/key_relation_embeddings"
    for changed, message in (
        ({**shapes, name: (9, 4)}, rf"{name} must have shape \(7, 4\).*9, 4"),
        ({n: s for n, s in shapes.items() if n != name}, "no such weight"),
        ({**shapes, "more": (1,)}, "it has 1 more, such as more"),
    ):
        with pytest.raises(ra.InputError, match=message):
            check_shapes(config, changed, "a file")
