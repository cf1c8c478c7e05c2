import numpy as np
from keras import ops

from relative_attention.ops.attention_block import Region
from relative_attention.ops.block_operands import make_operands

KEY = np.arange(4, dtype="float32").reshape(1, 1, 4, 1)
TABLE = np.array([[2], [3], [7]], "float32")


def make(key_table, value_table, has_right=True):
    tensors = [ops.array(array) for array in (KEY, KEY, KEY)]
    tables = {"key": key_table, "value": value_table}
    return make_operands(*tensors, tables, has_right)


def numbers(tensor):
    return np.array(tensor).reshape(-1).tolist()


def test_farthest_distance_back_is_taken_out_of_the_tables():
    operands = make(ops.array(TABLE), ops.array(TABLE))
    # `r = w - 2`: keys on the left have no relation, those on the right 5.
    assert numbers(operands.key_relations) == [0, 1, 5]
    assert numbers(operands.key) == [0, 1, 2, 3]
    assert numbers(operands.key_right) == [5, 6, 7, 8]
    # Every value has what was taken out.
    assert numbers(operands.value) == [2, 3, 4, 5]
    assert numbers(operands.value_right) == [7, 8, 9, 10]


def test_keys_and_values_are_those_of_the_region():
    operands = make(ops.array(TABLE), None)
    assert numbers(operands.keys(Region("left", 0, 2))) == [0, 1]
    assert numbers(operands.keys(Region("right", 2, 4))) == [7, 8]
    assert numbers(operands.values(Region("right", 3, 4))) == [3]


def test_only_what_there_is_is_present():
    assert list(make(None, None, has_right=False).present()) == [
        "query",
        "key",
        "value",
    ]
