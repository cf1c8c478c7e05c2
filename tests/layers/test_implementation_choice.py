"""Which implementation `"auto"` chooses, and that the layer asks."""

import sys

import numpy as np
import pytest

from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers import implementation_choice
from relative_attention.layers.implementation_choice import uses_blocks
from relative_attention.layers.implementation_choice import uses_diagonals


@pytest.mark.parametrize(
    ("length", "distance", "takes_blocks"),
    [
        (63, 16, False),
        (64, 16, True),
        (64, 32, False),
        (128, 64, False),
        (129, 64, True),
        (256, 128, False),
        (257, 200, True),
        (None, 200, True),
    ],
)
def test_auto_takes_blocks_where_most_pairs_are_far(
    length, distance, takes_blocks
):
    assert uses_blocks("auto", length, distance) == takes_blocks
    assert uses_blocks("blocks", length, distance)
    assert not uses_blocks("transpose", length, distance)


@pytest.mark.only_on("tensorflow", reason="has diagonals")
@pytest.mark.parametrize("computes_with_onednn", [True, False])
@pytest.mark.parametrize(
    ("length", "distance", "takes_diagonals"),
    [
        (None, 16, False),
        (1, 16, False),
        (2, 16, True),
        (64, 0, False),
        (64, 1, True),
        (512, 16, True),
        (513, 16, None),
    ],
)
def test_long_sentences_have_diagonals_where_operations_cost_most(
    monkeypatch, length, distance, takes_diagonals, computes_with_onednn
):
    monkeypatch.setattr(
        implementation_choice,
        "computes_with_onednn",
        lambda: computes_with_onednn,
    )
    if takes_diagonals is None:
        takes_diagonals = computes_with_onednn
    assert uses_diagonals(length, distance) == takes_diagonals


def test_only_kernels_that_were_measured_have_diagonals(monkeypatch):
    monkeypatch.setattr(
        implementation_choice, "prefers_own_kernels", lambda: False
    )
    assert not uses_diagonals(64, 16)


@pytest.mark.parametrize(
    ("arguments", "length", "expected"),
    [
        ({}, 8, "transpose"),
        ({}, 64, "diagonals"),
        ({}, 65, "blocks"),
        ({"return_attention_scores": True}, 64, "transpose"),
    ],
    ids=["short", "diagonals", "regions", "scores"],
)
def test_layer_computes_what_is_chosen(
    monkeypatch, arguments, length, expected
):
    module = sys.modules[RelativeSelfAttention.__module__]
    taken = []

    def take(name):
        def attention(query, *others, **options):
            taken.append(name)
            return query

        return attention

    monkeypatch.setattr(module, "block_attention", take("blocks"))
    monkeypatch.setattr(module, "diagonal_attention", take("diagonals"))
    monkeypatch.setattr(module, "uses_diagonals", lambda length, _: length < 65)
    layer = RelativeSelfAttention(1, 2, 3)
    layer(np.zeros((1, length, 2), "float32"), **arguments)
    # Keras may call a layer twice, to know the shape of its outputs.
    assert set(taken or ["transpose"]) == {expected}
