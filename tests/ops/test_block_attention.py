"""Attention by blocks, against its equations in float64.

`reference` is written as the docstring of `block_attention.py` says it, over
whole matrices; it shares no code with the package, nor do its gradients come
from automatic differentiation.
"""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import AttentionMask
from relative_attention.ops import block_attention
from relative_attention.ops.diagonal_attention import diagonal_attention

B, N, H, H_V = 2, 3, 4, 5
TABLES = ("key_table", "value_table")


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def make_operands(rng, length, max_relative_position, apart=False):
    rows = (*([N] if apart else []), 2 * max_relative_position + 1)
    return {
        "query": normal(rng, B, N, length, H) / 2,
        "key": normal(rng, B, N, length, H),
        "value": normal(rng, B, N, length, H_V),
        "key_table": normal(rng, *rows, H),
        "value_table": normal(rng, *rows, H_V),
    }


def one_hot_distances(length, num_rows):
    """`[i, j, c]` is 1 for the clipped distance `c` of key `j`, from 0 on."""
    distances = np.arange(length) - np.arange(length)[:, None]
    k = num_rows // 2
    return np.eye(num_rows)[np.clip(distances, -k, k) + k]


def reference(x, d_context, mask=None, kept=None):
    """Context vectors `O`, and the gradient of each operand from `dO`."""
    x = {name: array.astype("float64") for name, array in x.items()}
    q, k, v = x["query"], x["key"], x["value"]
    length = q.shape[2]
    # Relations by edge, `(1 or N, T, T, H)`: no table adds nothing.
    edges = dict.fromkeys(TABLES, np.zeros(1))
    hot = {}
    for name in TABLES:
        if name in x:
            hot[name] = one_hot_distances(length, x[name].shape[-2])
            edge = hot[name] @ x[name][..., None, :, :]
            edges[name] = edge if edge.ndim == 4 else edge[None]
    keys = k[:, :, None] + edges["key_table"]  # (B, N, T, T, H)
    values = v[:, :, None] + edges["value_table"]
    s = (q[:, :, :, None] * keys).sum(-1)
    p = np.exp(s) if mask is None else np.exp(s) * mask
    total = p.sum(-1, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    keep = 1 if kept is None else kept * 2
    z = keep * p
    context = (z[..., None] * values).sum(3)
    dp = keep * (d_context[:, :, :, None] * values).sum(-1)
    d = (d_context * context).sum(-1, keepdims=True)
    ds = p * (dp - d)
    gradients = {
        "query": (ds[..., None] * keys).sum(3),
        "key": ds.swapaxes(-1, -2) @ q,
        "value": z.swapaxes(-1, -2) @ d_context,
    }
    for name, of_pairs, of_queries in zip(TABLES, (ds, z), (q, d_context)):
        if name in x:
            letters = "nch" if x[name].ndim == 3 else "ch"
            gradients[name] = np.einsum(
                f"bnij,ijc,bnih->{letters}", of_pairs, hot[name], of_queries
            )
    return context, gradients


def assert_is_reference(
    gradients, rng, x, mask=None, kept=None, tolerance=1e-5, **arguments
):
    """Context vectors, and gradients of every operand."""
    d_context = normal(rng, *x["value"].shape)
    length = d_context.shape[2]
    whole = mask and mask.whole()
    whole = None if whole is None else np.array(whole)
    context, d_operands = reference(x, d_context, whole, kept)

    attend_with = [block_attention]

    def attend(*tensors):
        named = dict(zip(x, tensors))
        return attend_with[0](
            named["query"],
            named["key"],
            named["value"],
            named.get("key_table"),
            named.get("value_table"),
            mask=mask,
            **arguments,
        )

    assert length == context.shape[2]
    _assert_near(
        gradients, attend, x, d_context, context, d_operands, tolerance
    )
    num_distances = max(
        [x[name].shape[-2] for name in TABLES if name in x] + [1]
    )
    has_diagonals = length > 1 and num_distances > 1
    if (
        keras.backend.backend() == "tensorflow"
        and has_diagonals
        and not (kept is not None and arguments["block_length"])
    ):
        attend_with[0] = diagonal_attention
        arguments["block_length"] = arguments.get("block_length") or length
        _assert_near(
            gradients, attend, x, d_context, context, d_operands, tolerance
        )


def _assert_near(
    gradients, attend, x, d_context, context, d_operands, tolerance
):
    np.testing.assert_allclose(
        attend(*map(ops.convert_to_tensor, x.values())),
        context,
        rtol=tolerance,
        atol=tolerance,
    )
    weights = ops.convert_to_tensor(d_context)
    results = gradients(lambda *x: ops.sum(attend(*x) * weights), x.values())
    for result, wanted in zip(results, d_operands.values(), strict=True):
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(
            result / scale, wanted / scale, atol=tolerance
        )


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
        gradients,
        rng,
        make_operands(rng, length, max_relative_position),
        AttentionMask(length, is_causal=True) if is_causal else None,
        block_length=block_length,
    )


def test_heads_may_have_tables_of_their_own(rng, gradients):
    x = make_operands(rng, 9, 2, apart=True)
    assert_is_reference(gradients, rng, x, block_length=3)


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
    assert_is_reference(gradients, rng, x, mask, block_length=4)


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
        gradients,
        rng,
        make_operands(rng, 9, 1),
        kept=kept,
        block_length=block_length,
        # Asked for the output and once more for the gradients; both ways.
        dropout=KeyDropout(kept, 4 * spans),
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near(rng, gradients, dtype):
    x = make_operands(rng, 9, 2)
    d_context = normal(rng, *x["value"].shape)
    mask = AttentionMask(9, np.arange(9)[None] < 5)
    context, d_operands = reference(x, d_context, np.array(mask.whole()))

    def attend(query, key, value, *tables):
        half = [ops.cast(tensor, dtype) for tensor in (query, key, value)]
        result = block_attention(*half, *tables, mask=mask, block_length=4)
        assert keras.backend.standardize_dtype(result.dtype) == dtype
        return ops.cast(result, "float32")

    np.testing.assert_allclose(attend(*x.values()), context, atol=0.05)
    results = gradients(
        lambda *x: ops.sum(attend(*x) * ops.convert_to_tensor(d_context)),
        x.values(),
    )
    for result, wanted in zip(results, d_operands.values(), strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(result / scale, wanted / scale, atol=0.05)
