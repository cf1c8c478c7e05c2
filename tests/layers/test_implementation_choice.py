"""Which implementation `"auto"` chooses, and that the layer asks."""

import sys

import numpy as np
import pytest

from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers.implementation_choice import uses_blocks


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


@pytest.mark.parametrize(
    "arguments, length, takes_blocks",
    [
        ({}, 8, False),
        ({}, 64, True),
        ({"return_attention_scores": True}, 64, False),
    ],
    ids=["short", "long", "scores"],
)
def test_layer_computes_what_is_chosen(
    monkeypatch, arguments, length, takes_blocks
):
    module = sys.modules[RelativeSelfAttention.__module__]
    calls = []

    def block_attention(query, *others, **options):
        calls.append(query)
        return query

    monkeypatch.setattr(module, "block_attention", block_attention)
    monkeypatch.setattr(module, "diagonal_attention", block_attention)
    layer = RelativeSelfAttention(1, 2, 3)
    layer(np.zeros((1, length, 2), "float32"), **arguments)
    assert bool(calls) == takes_blocks
