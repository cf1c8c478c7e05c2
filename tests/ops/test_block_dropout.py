import numpy as np
from keras import ops

from relative_attention.ops.attention_block import split_into_blocks
from relative_attention.ops.block_dropout import draw_keep_masks


class Dropout:
    """Keeps every other element."""

    rate = 0.75

    def draw_keep_mask(self, shape):
        numbers = np.arange(np.prod(shape)).reshape(shape)
        return ops.convert_to_tensor(numbers % 2 == 0)


def test_every_region_has_its_mask():
    blocks = split_into_blocks(6, 3, 0, has_relations=True, is_causal=False)
    query = ops.zeros((1, 2, 6, 4))
    first, second = draw_keep_masks(Dropout(), blocks, query)
    assert [tuple(mask.shape) for mask in first.masks] == [(1, 2, 3, 3)] * 2
    dropped = second.drop(1, ops.ones((1, 2, 3, 3)))
    # What is kept is scaled by 1 / (1 - 0.75).
    np.testing.assert_array_equal(
        dropped[0, 0], [[4, 0, 4], [0, 4, 0], [4, 0, 4]]
    )


def test_no_dropout_draws_nothing():
    blocks = split_into_blocks(6, 3, 0, has_relations=True, is_causal=False)
    assert draw_keep_masks(None, blocks, None) == [None, None]
