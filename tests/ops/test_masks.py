import numpy as np
import pytest
from keras import ops

from relative_attention.ops.masks import causal_mask
from relative_attention.ops.masks import check_mask
from relative_attention.ops.masks import check_padding_mask
from relative_attention.ops.masks import merge_masks
from relative_attention.ops.masks import padding_mask


def test_padding_mask_is_false_at_id_zero_wherever_it_stands():
    np.testing.assert_array_equal(
        padding_mask(np.array([[7, 1, 0, 0], [0, 5, 0, 1]])),
        [[True, True, False, False], [False, True, False, True]],
    )


def test_causal_mask_hides_later_keys():
    mask = np.array(causal_mask(ops.arange(5), ops.arange(5)))
    for query, key in np.ndindex(5, 5):
        assert mask[query, key] == (key <= query)


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("has_padding", [False, True])
@pytest.mark.parametrize("shape", [None, (6, 6), (2, 1, 6)])
def test_masks_are_merged_pair_by_pair(rng, shape, has_padding, is_causal):
    given = None if shape is None else rng.random(shape) < 0.7
    padding = rng.random((2, 6)) < 0.7 if has_padding else None
    mask = merge_masks(6, padding, given, is_causal)
    mask = True if mask is None else np.asarray(mask)
    wanted = np.ones((2, 1, 6, 6), bool)
    for b, i, j in np.ndindex(2, 6, 6):
        wanted[b, 0, i, j] = (
            (given is None or np.broadcast_to(given, (2, 6, 6))[b, i, j])
            and (padding is None or padding[b, j])
            and (not is_causal or j <= i)
        )
    np.testing.assert_array_equal(np.broadcast_to(mask, wanted.shape), wanted)


def test_token_ids_are_refused():
    with pytest.raises(ValueError, match="Received: 7. For token ids, pass"):
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
