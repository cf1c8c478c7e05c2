"""The equations one by one: by hand, by loops, and as tensor2tensor's."""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.attention import clipped_relative_positions
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.attention import relative_attention_inner

B, N, T, S, H = 2, 3, 5, 7, 11


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("limit", [0, 1, 3, 13])
@pytest.mark.parametrize(
    "query_positions, key_positions",
    [
        (range(7), range(7)),
        (range(5), range(11)),
        ([4], range(7)),
        ([2, 0, 19], [5, 3, 3, 0]),
    ],
    ids=["self", "rectangular", "one_query", "any_order"],
)
def test_clipped_relative_positions_are_those_of_the_paper(
    query_positions, key_positions, limit
):
    result = clipped_relative_positions(
        np.array(query_positions), np.array(key_positions), limit
    )
    assert keras.backend.standardize_dtype(result.dtype) == "int32"
    # Section 3.2, edge by edge.
    expected = [
        [max(-limit, min(limit, j - i)) + limit for j in key_positions]
        for i in query_positions
    ]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", range(16))
def test_clipped_relative_positions_are_tensor2tensors(golden, case):
    golden = golden("A1_relative_positions_matrix")
    info = golden.info["cases"][case]
    keys = np.arange(info["length_k"])
    # tensor2tensor's queries are the last ones; a cached query is the last.
    queries = keys[-1:] if info["cache"] else keys[-info["length_q"] :]
    result = clipped_relative_positions(
        queries, keys, info["max_relative_position"]
    )
    np.testing.assert_array_equal(result, golden[f"case{case}/matrix"])


def test_clipped_relative_positions_refuse_a_negative_limit():
    with pytest.raises(ValueError) as error:
        clipped_relative_positions(ops.arange(3), ops.arange(3), -4)
    assert str(error.value) == (
        "`max_relative_position` must be a non-negative int (tokens on either "
        "side). Received: max_relative_position=-4."
    )


def sum_over_edges(x, y, z, transpose):
    """Both products of a query position, one edge at a time, in float64."""
    x, y, z = (array.astype("float64") for array in (x, y, z))
    if z.ndim == 3:
        z = np.stack([z] * x.shape[1])
    rows = []
    for b, n, t in np.ndindex(*x.shape[:3]):
        # The keys or values as this query sees them, edges included.
        seen = [y[b, n, s] + z[n, t, s] for s in range(y.shape[2])]
        if transpose:
            rows.append([x[b, n, t] @ row for row in seen])
        else:
            rows.append(sum(w * row for w, row in zip(x[b, n, t], seen)))
    return np.reshape(rows, (*x.shape[:3], -1))


@pytest.mark.parametrize("per_head", [False, True], ids=["shared", "per_head"])
@pytest.mark.parametrize("transpose", [True, False], ids=["logits", "outputs"])
@pytest.mark.parametrize("num_queries", [1, T])
def test_relative_attention_inner_is_the_sum_over_edges(
    rng, per_head, transpose, num_queries
):
    x = normal(rng, B, N, num_queries, H if transpose else S)
    y = normal(rng, B, N, S, H)
    z = normal(rng, *([N] if per_head else []), num_queries, S, H)
    assert_same(
        relative_attention_inner(x, y, z, transpose),
        sum_over_edges(x, y, z, transpose),
    )


@pytest.mark.parametrize("case", [*range(14), 15, 17])
def test_relative_attention_inner_is_tensor2tensors(golden, case):
    info, data = golden("A2_relative_attention_inner").case(case)
    result = relative_attention_inner(
        *(data[name] for name in "xyz"), transpose=info["transpose"]
    )
    assert_same(result, data["output"])


@pytest.mark.parametrize("shape", [(S, H), (B, N, T, S, H)])
def test_relative_attention_inner_refuses_another_rank(rng, shape):
    x, y = normal(rng, B, N, T, H), normal(rng, B, N, S, H)
    with pytest.raises(ValueError) as error:
        relative_attention_inner(x, y, normal(rng, *shape), True)
    assert "`z` must have shape (T, S, H)" in str(error.value)
    assert f"Received shape: {shape}." in str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_masked_softmax_is_softmax_over_the_keys_left(rng, dtype):
    logits = 3 * normal(rng, B, N, T, S)
    # Each query may attend to some keys; query 2 of sentence 1 to none.
    mask = rng.random((B, 1, T, S)) < 0.6
    mask[..., 0] = True
    mask[1, :, 2] = False
    if dtype != "float32":
        # 60,000 is near the largest float16; -1e9 lies beyond it.
        logits[0, 0, 0] = 60_000
    shifted = logits.astype("float64") - logits.max(-1, keepdims=True)
    exponentials = np.exp(shifted) * mask
    sums = exponentials.sum(-1, keepdims=True)
    scores = masked_softmax(ops.cast(logits, dtype), mask)
    assert keras.backend.standardize_dtype(scores.dtype) == dtype
    scores = np.array(ops.cast(scores, "float32"))
    bound = 1e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(
        scores,
        exponentials / np.where(sums == 0, 1, sums),
        rtol=bound,
        atol=0 if dtype == "float32" else bound,
    )
    assert not scores[~np.broadcast_to(mask, scores.shape)].any()
