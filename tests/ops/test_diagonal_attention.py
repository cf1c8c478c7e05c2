"""Attention along diagonals, against its equations in float64."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops import AttentionMask
from relative_attention.ops.diagonal_attention import diagonal_attention
from tests.ops.attention_equations import B
from tests.ops.attention_equations import assert_half_precision_is_near
from tests.ops.attention_equations import assert_is_reference
from tests.ops.attention_equations import make_operands

pytestmark = pytest.mark.only_on("tensorflow", reason="has its operations")


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    ("length", "max_relative_position", "block_length"),
    [
        (9, 2, 9),  # One block, of three stretches of three keys.
        (12, 2, 5),  # Two blocks, the second of which begins in a stretch.
        (11, 1, 4),  # A prime number of keys: stretches of one.
        (24, 3, 8),  # Three blocks; stretches of six, the longest possible.
        (9, 20, 3),  # No distance is clipped.
        (9, 8, 9),  # One pair only is at the clipping distance.
        (2, 1, 1),  # Two tokens, three distances.
    ],
)
def test_diagonals_are_the_equations(
    rng, gradients, length, max_relative_position, block_length, is_causal
):
    assert_is_reference(
        diagonal_attention,
        gradients,
        rng,
        make_operands(rng, length, max_relative_position),
        AttentionMask(length, is_causal=True) if is_causal else None,
        block_length=block_length,
    )


def test_heads_may_have_tables_of_their_own(rng, gradients):
    x = make_operands(rng, 9, 2, apart=True)
    assert_is_reference(diagonal_attention, gradients, rng, x, block_length=4)


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("missing", [None, "key_table", "value_table"])
def test_relations_may_be_missing_and_masks_any(
    rng, gradients, missing, is_causal
):
    x = make_operands(rng, 12, 2)
    x.pop(missing, None)
    given = rng.random((B, 12, 12)) < 0.6
    # A query that may attend to nothing.
    given[0, 5] = False
    padding = np.arange(12) < np.array([[12], [6]])
    mask = AttentionMask(12, padding, given, is_causal)
    assert_is_reference(
        diagonal_attention, gradients, rng, x, mask, block_length=4
    )


class KeyDropout:
    """Drops the same keys for every query and block."""

    rate = 0.5

    def __init__(self, kept):
        self.kept = kept

    def draw_keep_mask(self, shape):
        return ops.broadcast_to(
            ops.convert_to_tensor(self.kept[: shape[-1]]), shape
        )


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("missing", [None, "key_table", "value_table"])
def test_dropout_leaves_out_scores(rng, gradients, missing, is_causal):
    x = make_operands(rng, 9, 1)
    x.pop(missing, None)
    kept = rng.random(9) < 0.5
    assert_is_reference(
        diagonal_attention,
        gradients,
        rng,
        x,
        AttentionMask(9, is_causal=True) if is_causal else None,
        kept=kept,
        block_length=4,
        dropout=KeyDropout(kept),
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near(rng, gradients, dtype):
    assert_half_precision_is_near(
        diagonal_attention, gradients, rng, dtype, block_length=4
    )


def test_xla_compiles_it(rng):
    import tensorflow as tf

    x = make_operands(rng, 12, 2)

    def context_and_gradients(*operands):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            context = diagonal_attention(*operands, block_length=4)
        return context, *tape.gradient(context, operands)

    compiled = tf.function(context_and_gradients, jit_compile=True)
    operands = tuple(map(tf.convert_to_tensor, x.values()))
    for result, expected in zip(
        compiled(*operands), context_and_gradients(*operands), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
