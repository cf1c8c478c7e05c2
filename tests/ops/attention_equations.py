"""Attention with relations, as the docstring of `relative_attention.py` has it.

`reference` works on whole matrices in float64; it shares no code with the
package, nor do its gradients come from automatic differentiation.
"""

import keras
import numpy as np
from keras import ops

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
    attention, gradients, rng, x, mask=None, kept=None, **arguments
):
    """Context vectors of `attention`, and gradients of every operand."""
    d_context = normal(rng, *x["value"].shape)
    length = d_context.shape[2]
    context, d_operands = reference(x, d_context, mask, kept)

    def attend(*tensors):
        named = dict(zip(x, tensors))
        return attention(
            named["query"],
            named["key"],
            named["value"],
            named.get("key_table"),
            named.get("value_table"),
            mask=mask,
            **arguments,
        )

    assert length == context.shape[2]
    np.testing.assert_allclose(
        attend(*map(ops.convert_to_tensor, x.values())),
        context,
        rtol=1e-5,
        atol=1e-5,
    )
    weights = ops.convert_to_tensor(d_context)
    results = gradients(lambda *x: ops.sum(attend(*x) * weights), x.values())
    for result, wanted in zip(results, d_operands.values(), strict=True):
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(result / scale, wanted / scale, atol=1e-5)


def assert_half_precision_is_near(
    attention, gradients, rng, dtype, **arguments
):
    """The same, with operands in half precision and tables in float32."""
    x = make_operands(rng, 9, 2)
    d_context = normal(rng, *x["value"].shape)
    mask = np.arange(9)[None, None, None] < 5
    context, d_operands = reference(x, d_context, mask)

    def attend(query, key, value, *tables):
        half = [ops.cast(tensor, dtype) for tensor in (query, key, value)]
        result = attention(*half, *tables, mask=mask, **arguments)
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
