import itertools

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import AttentionMask
from relative_attention.ops import attention_context
from relative_attention.ops import attention_logits
from relative_attention.ops import block_attention
from relative_attention.ops import clipped_relative_positions
from relative_attention.ops import masked_softmax

B, N, H, H_V = 2, 3, 4, 5


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def operands(rng, length, limit, apart=False):
    heads = (N,) if apart else ()
    return [
        normal(rng, B, N, length, H) / 2,
        normal(rng, B, N, length, H),
        normal(rng, B, N, length, H_V),
        normal(rng, *heads, 2 * limit + 1, H),
        normal(rng, *heads, 2 * limit + 1, H_V),
    ]


def by_edges(query, key, value, key_table, value_table, mask, kept=None):
    """tensor2tensor's way: an embedding for every edge."""
    positions = np.arange(query.shape[2])

    def edges(table):
        if table is None:
            return None
        rows = clipped_relative_positions(
            positions, positions, table.shape[-2] // 2
        )
        return ops.take(table, rows, axis=-2)

    scores = masked_softmax(
        attention_logits(query, key, edges(key_table)), mask and mask.whole()
    )
    if kept is not None:
        scores = ops.where(kept, scores * 2, 0.0)
    return attention_context(scores, value, edges(value_table))


def assert_same(gradients, arrays, attend, expected, rng):
    """Context vectors, and gradients of every operand."""
    outputs = attend(*arrays)
    weights = ops.convert_to_tensor(normal(rng, *outputs.shape))
    np.testing.assert_allclose(outputs, expected(*arrays), rtol=1e-5, atol=1e-5)
    results = [
        gradients(lambda *x, f=function: ops.sum(f(*x) * weights), arrays)
        for function in (attend, expected)
    ]
    for result, wanted in zip(*results, strict=True):
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(result / scale, wanted / scale, atol=1e-5)


@pytest.mark.parametrize("apart", [False, True], ids=["shared", "apart"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    ("length", "limit", "block_length"),
    [
        (1, 0, None),
        (1, 3, 4),
        (9, 2, None),
        (9, 20, None),
        (9, 0, 4),
        (9, 2, 1),
        (9, 2, 3),
        (9, 7, 3),
        (9, 20, 3),
        (23, 3, 8),
    ],
)
def test_blocks_are_the_whole(
    rng, gradients, length, limit, block_length, is_causal, apart
):
    arrays = operands(rng, length, limit, apart)
    mask = AttentionMask(length, is_causal=True) if is_causal else None
    assert_same(
        gradients,
        arrays,
        lambda *x: block_attention(*x, mask=mask, block_length=block_length),
        lambda *x: by_edges(*x, mask),
        rng,
    )


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    ("has_keys", "has_values"),
    itertools.product([False, True], repeat=2),
    ids=["neither", "values", "keys", "both"],
)
def test_relations_may_be_missing_and_masks_any(
    rng, gradients, has_keys, has_values, is_causal
):
    *arrays, key_table, value_table = operands(rng, 11, 2)
    given = rng.random((B, 11, 11)) < 0.6
    given[0, 5] = False
    padding = np.arange(11) < np.array([[11], [6]])
    mask = AttentionMask(11, padding, given, is_causal)
    tables = [
        table
        for table, is_there in (
            (key_table, has_keys),
            (value_table, has_values),
        )
        if is_there
    ]

    def all_operands(x):
        tables = iter(x[3:])
        return (
            *x[:3],
            next(tables) if has_keys else None,
            next(tables) if has_values else None,
        )

    assert_same(
        gradients,
        [*arrays, *tables],
        lambda *x: block_attention(*all_operands(x), mask=mask, block_length=4),
        lambda *x: by_edges(*all_operands(x), mask),
        rng,
    )


class Halving:
    """Stands for a `Dropout` layer; the same elements whenever asked."""

    rate = 0.5

    def __init__(self, rng, length):
        self.kept = rng.random((B, N, length, length)) < 0.5

    def draw_keep_mask(self, shape):
        assert tuple(shape) == self.kept.shape
        return ops.convert_to_tensor(self.kept)


def test_dropout_leaves_out_scores(rng, gradients):
    arrays = operands(rng, 9, 2)
    dropout = Halving(rng, 9)
    assert_same(
        gradients,
        arrays,
        lambda *x: block_attention(*x, dropout=dropout),
        lambda *x: by_edges(*x, None, kept=dropout.kept),
        rng,
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


def test_dropout_knows_its_blocks(rng, gradients):
    kept = rng.random(9) < 0.5
    # Blocks of 4, K = 1: near the band, to its left, to its right.
    spans = [(0, 5), (5, 9), (3, 9), (0, 3), (7, 9), (0, 7)]
    assert_same(
        gradients,
        operands(rng, 9, 1),
        lambda *x: block_attention(
            *x, block_length=4, dropout=KeyDropout(kept, spans)
        ),
        lambda *x: by_edges(*x, None, kept=kept),
        rng,
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near(rng, dtype):
    arrays = operands(rng, 9, 2)
    mask = AttentionMask(9, np.arange(9)[None] < 5)
    context = block_attention(
        *(ops.cast(array, dtype) for array in arrays), mask=mask, block_length=4
    )
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    np.testing.assert_allclose(
        ops.cast(context, "float32"), by_edges(*arrays, mask), atol=0.05
    )
