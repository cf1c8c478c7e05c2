"""Blocks of four queries of ten tokens, `K = 1`."""

import dataclasses

import numpy as np
import pytest
from keras import ops

from relative_attention.ops.attention_block import split_into_blocks


def split(length=10, block_length=4, has_relations=True, is_causal=False):
    return split_into_blocks(length, block_length, 1, has_relations, is_causal)


def test_keys_are_left_of_the_band_near_it_or_to_its_right():
    assert [block.regions() for block in split()] == [
        [("near", 0, 5), ("right", 5, 10)],
        [("near", 3, 9), ("left", 0, 3), ("right", 9, 10)],
        [("near", 7, 10), ("left", 0, 7)],
    ]
    assert [(block.start, block.length) for block in split()] == [
        (0, 4),
        (4, 4),
        (8, 2),
    ]


def test_causal_blocks_end_with_their_last_query():
    assert [block.regions() for block in split(is_causal=True)] == [
        [("near", 0, 4)],
        [("near", 3, 8), ("left", 0, 3)],
        [("near", 7, 10), ("left", 0, 7)],
    ]


def test_all_keys_are_near_without_relations():
    assert [block.regions() for block in split(has_relations=False)] == [
        [("near", 0, 10)]
    ] * 3


@pytest.mark.parametrize("block_length", [None, 10, 11])
def test_one_block_may_have_all(block_length):
    (block,) = split(block_length=block_length)
    assert block.regions() == [("near", 0, 10)]
    assert not block.has_right


def test_length_that_is_not_known_is_one_block():
    length = ops.convert_to_tensor(10)
    (block,) = split(length, None)
    assert not block.has_known_length and not block.has_right
    assert [region.side for region in block.regions()] == ["near"]


def test_columns_of_distances_go_to_the_keys_near():
    # Queries 4 to 7; distances -1, 0, 1 are worth 1, 2, 4.
    block = split()[1]
    by_distance = np.tile(np.array([1.0, 2, 4], "float32"), (1, 1, 4, 1))
    by_key = block.to_keys(ops.array(by_distance))
    np.testing.assert_array_equal(
        by_key[0, 0],
        [
            [1, 2, 4, 4, 4, 4],
            [0, 1, 2, 4, 4, 4],
            [0, 0, 1, 2, 4, 4],
            [0, 0, 0, 1, 2, 4],
        ],
    )
    np.testing.assert_array_equal(
        block.to_distances(by_key)[0, 0],
        [[1, 2, 16], [1, 2, 12], [1, 2, 8], [1, 2, 4]],
    )


def test_blocks_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        split()[0].start = 1
