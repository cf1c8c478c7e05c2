"""`KeyValueCache`, the nested structure that decoding passes through loops."""

import keras
import numpy as np
from keras import ops

from relative_attention.layers.cache import KeyValueCache


def column(*numbers):
    """What two beams of one sentence write at a position, one head of one."""
    return ops.reshape(ops.array(numbers, "float32"), (1, 1, 2, 1))


def numbers(tensor):
    return np.ravel(ops.convert_to_numpy(tensor)).tolist()


def test_columns_stand_by_position_then_beam():
    cache = KeyValueCache.empty(1, 1, 1, 1, "float32")
    assert cache.key.shape == cache.recent_value.shape == (1, 1, 0, 1)
    for position in (1, 3):
        cache = cache.extended(
            column(position, position + 1),
            column(10 * position, 10 * position + 1),
        )
    assert numbers(cache.key) == numbers(cache.value) == []
    assert numbers(cache.recent_key) == [1, 2, 3, 4]
    assert numbers(cache.recent_value) == [10, 11, 30, 31]


def test_merging_moves_recent_columns_to_the_others():
    empty = KeyValueCache.empty(1, 1, 1, 1, "float32")
    cache = empty.extended(column(1, 2), column(3, 4)).merged()
    assert numbers(cache.key) == [1, 2]
    assert numbers(cache.value) == [3, 4]
    assert numbers(cache.recent_key) == numbers(cache.recent_value) == []
    cache = cache.extended(column(5, 6), column(7, 8)).merged()
    assert numbers(cache.key) == [1, 2, 5, 6]
    assert numbers(cache.value) == [3, 4, 7, 8]


def test_sizes_are_those_of_heads_keys_and_values():
    cache = KeyValueCache.empty(2, 3, 5, 7, "float16")
    assert [tuple(part.shape) for part in cache] == [
        (2, 3, 0, 5),
        (2, 3, 0, 7),
        (2, 3, 0, 5),
        (2, 3, 0, 7),
    ]
    assert {keras.backend.standardize_dtype(part.dtype) for part in cache} == {
        "float16"
    }


def test_tree_functions_keep_its_type():
    cache = KeyValueCache.empty(1, 1, 1, 1, "float32")
    cache = cache.extended(column(1, 2), column(3, 4))
    nested = keras.tree.map_structure(lambda x: x + 1, {"blocks": [cache]})
    (changed,) = nested["blocks"]
    assert isinstance(changed, KeyValueCache)
    assert numbers(changed.recent_key) == [2, 3]
    assert numbers(changed.recent_value) == [4, 5]
