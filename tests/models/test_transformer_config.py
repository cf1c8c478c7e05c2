import dataclasses

import pytest

from relative_attention.models import TransformerConfig
from relative_attention.positions import POSITION_ENCODINGS

CHOICES = {
    "position_encoding": f"one of {', '.join(map(repr, POSITION_ENCODINGS))}",
    "share_embeddings": "one of 'all', 'target', 'source_target', 'none'",
}


@pytest.mark.parametrize(
    "field, value, allowed",
    [
        *(
            (field, value, "an int of at least 1")
            for field in (
                "vocabulary_size",
                "num_encoder_layers",
                "num_decoder_layers",
                "hidden_dim",
                "intermediate_dim",
                "num_heads",
                "max_length",
                "key_dim",
                "source_vocabulary_size",
            )
            for value in (0, 2.0)
        ),
        ("num_heads", True, "an int of at least 1"),
        ("max_relative_position", -1, "an int of at least 0"),
        ("max_relative_position", 1.5, "an int of at least 0"),
        ("dropout", 1.0, "a rate in [0, 1)"),
        ("attention_dropout", -0.1, "a rate in [0, 1)"),
        ("intermediate_dropout", 2, "a rate in [0, 1)"),
        ("layer_norm_epsilon", 0, "> 0"),
        ("position_encoding", "rotate", CHOICES["position_encoding"]),
        ("share_embeddings", True, CHOICES["share_embeddings"]),
    ],
)
def test_wrong_value_is_named_with_what_is_allowed(field, value, allowed):
    with pytest.raises(ValueError) as error:
        TransformerConfig(**{"vocabulary_size": 11, field: value})
    assert str(error.value) == (
        f"`{field}` must be {allowed}. Received: {field}={value!r}."
    )


def test_width_that_heads_do_not_divide_needs_a_key_dim():
    arguments = {"vocabulary_size": 11, "hidden_dim": 13, "num_heads": 3}
    with pytest.raises(ValueError) as error:
        TransformerConfig(**arguments)
    assert "`hidden_dim` must be a multiple of `num_heads`" in str(error.value)
    assert "hidden_dim=13, num_heads=3" in str(error.value)
    assert TransformerConfig(**arguments, key_dim=5).head_dim == 5


def test_two_vocabularies_cannot_share_all_embeddings():
    arguments = {"vocabulary_size": 11, "source_vocabulary_size": 13}
    with pytest.raises(ValueError) as error:
        TransformerConfig(**arguments, share_embeddings="all")
    assert '`share_embeddings` must be "target" or "none"' in str(error.value)
    assert "source_vocabulary_size=13" in str(error.value)
    assert "vocabulary_size=11" in str(error.value)
    for choice in ("target", "none"):
        TransformerConfig(**arguments, share_embeddings=choice)
    TransformerConfig(
        vocabulary_size=11, source_vocabulary_size=11, share_embeddings="all"
    )


@pytest.mark.parametrize(
    "position_encoding, is_relative",
    [
        ("relative", True),
        ("relative+sinusoidal", True),
        ("sinusoidal", False),
        ("learned", False),
        (None, False),
    ],
)
def test_is_relative_tells_whether_attention_has_relations(
    position_encoding, is_relative
):
    config = TransformerConfig(
        vocabulary_size=11, position_encoding=position_encoding
    )
    assert config.is_relative == is_relative


def test_config_is_frozen():
    config = TransformerConfig(vocabulary_size=11)
    assert config.head_dim == 64
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_heads = 3
