"""Padding masks, and masks that are refused.

What masks hide is in `tests/layers/test_attention.py`.
"""

import numpy as np
import pytest

from relative_attention.ops.masks import check_mask
from relative_attention.ops.masks import check_padding_mask
from relative_attention.ops.masks import padding_mask


def test_padding_mask_is_false_at_id_zero_wherever_it_stands():
    np.testing.assert_array_equal(
        padding_mask(np.array([[7, 1, 0, 0], [0, 5, 0, 1]])),
        [[True, True, False, False], [False, True, False, True]],
    )


def test_token_ids_are_refused():
    with pytest.raises(ValueError, match="Received: 7, in .*For token ids"):
        check_mask("mask", np.array([[7, 0]]))


def test_padding_mask_has_the_sizes_that_are_known():
    mask = np.ones((2, 5), bool)
    check_padding_mask("mask", mask, 2, 5)
    check_padding_mask("mask", mask, None, 5)
    with pytest.raises(ValueError) as error:
        check_padding_mask("mask", mask, 2, 4)
    assert str(error.value) == (
        "`mask` must have shape (2, 4), True for real tokens. Received shape: "
        "(2, 5)."
    )
