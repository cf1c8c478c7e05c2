import numpy as np
import pytest

import relative_attention as ra
from relative_attention.training import relation_tables


def make_model(**overrides):
    return ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=11,
        num_encoder_layers=2,
        num_decoder_layers=1,
        hidden_dim=6,
        intermediate_dim=7,
        num_heads=3,
        key_dim=2,
        value_dim=5,
        max_relative_position=4,
        dropout=0.0,
        **overrides,
    )


@pytest.mark.parametrize("is_shared", [True, False])
def test_every_block_gives_its_tables(is_shared):
    model = make_model(share_relations_across_heads=is_shared)
    tables = relation_tables(model)
    num_tables = 1 if is_shared else 3
    assert {name: table.shape for name, table in tables.items()} == {
        f"{block}/{side}": (num_tables, 9, dim)
        for block in ("encoder_block_0", "encoder_block_1", "decoder_block_0")
        for side, dim in (("key", 2), ("value", 5))
    }
    layer = model.encoder_blocks[1].self_attention
    np.testing.assert_array_equal(
        tables["encoder_block_1/value"].reshape(-1),
        np.asarray(layer.value_relation_embeddings).reshape(-1),
    )


@pytest.mark.parametrize(
    ("overrides", "sides"),
    [
        ({"position_encoding": "sinusoidal"}, set()),
        ({"use_value_relations": False}, {"key"}),
    ],
    ids=["absolute", "keys_alone"],
)
def test_tables_that_a_model_lacks_are_left_out(overrides, sides):
    names = relation_tables(make_model(**overrides))
    assert {name.split("/")[1] for name in names} == sides
