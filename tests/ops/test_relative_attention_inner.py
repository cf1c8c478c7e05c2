import numpy as np
import pytest

from relative_attention.ops import relative_attention_inner

B, N, T, S, H = 2, 3, 5, 7, 11


def reference(x, y, z, transpose):
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


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.mark.parametrize("per_head", [False, True], ids=["shared", "per_head"])
@pytest.mark.parametrize("transpose", [True, False], ids=["logits", "outputs"])
@pytest.mark.parametrize("num_queries", [1, T])
def test_relative_attention_inner_is_the_sum_over_edges(
    rng, per_head, transpose, num_queries
):
    x = normal(rng, B, N, num_queries, H if transpose else S)
    y = normal(rng, B, N, S, H)
    z = normal(rng, *([N] if per_head else []), num_queries, S, H)
    result = relative_attention_inner(x, y, z, transpose)
    np.testing.assert_allclose(
        result, reference(x, y, z, transpose), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("case", [*range(14), 15, 17])
def test_relative_attention_inner_is_tensor2tensors(golden, case):
    info, data = golden("A2_relative_attention_inner").case(case)
    result = relative_attention_inner(
        *(data[name] for name in "xyz"), transpose=info["transpose"]
    )
    np.testing.assert_allclose(result, data["output"], rtol=1e-5, atol=1e-5)


def test_relative_attention_inner_with_equal_heads_tables_is_shared(rng):
    x, y, z = normal(rng, B, N, T, H), normal(rng, B, N, S, H), None
    z = normal(rng, T, S, H)
    np.testing.assert_allclose(
        relative_attention_inner(x, y, np.stack([z] * N), True),
        relative_attention_inner(x, y, z, True),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("shape", [(S, H), (B, N, T, S, H)])
def test_relative_attention_inner_refuses_another_rank(rng, shape):
    x, y = normal(rng, B, N, T, H), normal(rng, B, N, S, H)
    with pytest.raises(ValueError) as error:
        relative_attention_inner(x, y, normal(rng, *shape), True)
    assert "`z` must have shape (T, S, H)" in str(error.value)
    assert f"Received shape: {shape}." in str(error.value)
