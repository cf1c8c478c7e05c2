import numpy as np
from keras import ops

from relative_attention.ops import causal_mask
from relative_attention.ops import padding_mask


def test_padding_mask_is_false_at_id_zero_wherever_it_stands():
    np.testing.assert_array_equal(
        padding_mask(np.array([[7, 1, 0, 0], [0, 5, 0, 1]])),
        [[True, True, False, False], [False, True, False, True]],
    )


def test_causal_mask_hides_later_keys():
    mask = np.array(causal_mask(ops.arange(5), ops.arange(5)))
    for query, key in np.ndindex(5, 5):
        assert mask[query, key] == (key <= query)


def test_causal_mask_of_a_cached_query_is_its_row():
    mask = causal_mask(ops.arange(7), ops.arange(7))
    for index in range(7):
        row = causal_mask(ops.array([index]), ops.arange(7))
        np.testing.assert_array_equal(row, mask[index : index + 1])
