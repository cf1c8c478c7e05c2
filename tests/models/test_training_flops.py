"""Operations of a step, counted again from the weights."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models import training_flops

S, T, V = 7, 5, 11


@pytest.mark.parametrize(
    "positions, sizes",
    [("relative", {"key_dim": 3, "value_dim": 6}), ("sinusoidal", {})],
    ids=["relative-of-its-own", "sinusoidal-equal"],
)
def test_operations_are_those_of_all_matrix_products(positions, sizes):
    model = ra.Transformer.from_preset(
        "transformer_tiny",
        V,
        position_encoding=positions,
        max_relative_position=2,
        num_encoder_layers=2,
        num_decoder_layers=3,
        **sizes,
    )
    products = 0
    for weight in model.weights:
        name = weight.path
        if not name.endswith("kernel"):
            continue
        # A kernel is multiplied with every token of the side that it reads.
        reads_source = "encoder_block" in name or (
            "cross_attention/" in name and ("key" in name or "value" in name)
        )
        products += np.prod(weight.shape) * (S if reads_source else T)
    head = model.config.head_dim
    both = model.config.num_heads * (head + (sizes.get("value_dim") or head))
    products += both * (2 * S * S + 3 * T * T + 3 * T * S)
    products += model.config.hidden_dim * V * T
    # Two operations each; backward takes twice what forward takes.
    assert training_flops(model.config, S, T) == 6 * products
