"""Attention by blocks, against its equations in float64."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops import AttentionMask
from relative_attention.ops import block_attention
from tests.ops.attention_equations import TABLES
from tests.ops.attention_equations import B
from tests.ops.attention_equations import assert_half_precision_is_near
from tests.ops.attention_equations import assert_is_reference
from tests.ops.attention_equations import make_operands


def test_two_tokens_by_hand():
    # A query of zeros sees all keys alike: half of each value, and half of
    # the relations of its two distances.
    zeros = np.zeros((1, 1, 2, 1), "float32")
    value = np.array([2.0, 4.0], "float32").reshape(1, 1, 2, 1)
    table = np.array([[10], [20], [40]], "float32")  # -1, 0, 1
    context = block_attention(zeros, zeros, value, table, table)
    # (2 + 20 + 4 + 40) / 2 and (2 + 10 + 4 + 20) / 2.
    np.testing.assert_array_equal(np.array(context).reshape(-1), [33, 18])


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    ("length", "max_relative_position", "block_length"),
    [
        (1, 3, 4),  # One token.
        (9, 2, None),  # One block.
        (9, 0, 4),  # One relation.
        (5, 2, 1),  # Blocks shorter than the band.
        (9, 20, 3),  # No distance is clipped.
        (11, 1, 4),  # Keys left and right of each block, and a short block.
    ],
)
def test_blocks_are_the_equations(
    rng, gradients, length, max_relative_position, block_length, is_causal
):
    assert_is_reference(
        block_attention,
        gradients,
        rng,
        make_operands(rng, length, max_relative_position),
        AttentionMask(length, is_causal=True) if is_causal else None,
        block_length=block_length,
    )


def test_heads_may_have_tables_of_their_own(rng, gradients):
    x = make_operands(rng, 9, 2, apart=True)
    assert_is_reference(block_attention, gradients, rng, x, block_length=3)


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "missing",
    [TABLES, ["key_table"], ["value_table"]],
    ids=["neither", "values", "keys"],
)
def test_relations_may_be_missing_and_masks_any(
    rng, gradients, missing, is_causal
):
    x = make_operands(rng, 11, 2)
    for name in missing:
        del x[name]
    given = rng.random((B, 11, 11)) < 0.6
    # A query that may attend to nothing.
    given[0, 5] = False
    padding = np.arange(11) < np.array([[11], [6]])
    mask = AttentionMask(11, padding, given, is_causal)
    assert_is_reference(
        block_attention, gradients, rng, x, mask, block_length=4
    )


class KeyDropout:
    """Drops the same keys for every query, whatever the blocks."""

    rate = 0.5

    def __init__(self, kept, spans):
        self.kept = kept
        self.spans = iter(spans)

    def draw_keep_mask(self, shape):
        start, stop = next(self.spans)
        assert shape[-1] == stop - start
        return ops.broadcast_to(
            ops.convert_to_tensor(self.kept[start:stop]), shape
        )


@pytest.mark.parametrize(
    ("block_length", "spans"),
    # Blocks of 4, K = 1: near the band, to its left, to its right.
    [(None, [(0, 9)]), (4, [(0, 5), (5, 9), (3, 9), (0, 3), (7, 9), (0, 7)])],
    ids=["one_block", "blocks"],
)
def test_dropout_leaves_out_scores(rng, gradients, block_length, spans):
    kept = rng.random(9) < 0.5
    assert_is_reference(
        block_attention,
        gradients,
        rng,
        make_operands(rng, 9, 1),
        kept=kept,
        block_length=block_length,
        # Asked for the output and then once more for the gradients.
        dropout=KeyDropout(kept, 2 * spans),
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near(rng, gradients, dtype):
    assert_half_precision_is_near(
        block_attention, gradients, rng, dtype, block_length=4
    )
