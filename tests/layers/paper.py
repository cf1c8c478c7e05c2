"""Attention with edges (Shaw et al. 2018, section 3.1) in float64."""

import numpy as np


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def assert_same(result, expected, bound=1e-5):
    np.testing.assert_allclose(result, expected, rtol=bound, atol=bound)


def weights_of(layer):
    """The weights by name (`query/kernel`, ...), in float64."""
    return {
        "/".join(weight.path.split("/")[1:]): np.array(weight, "float64")
        for weight in layer.trainable_weights
    }


def distances(length):
    """The distance from each query to each key."""
    return np.arange(length) - np.arange(length)[:, None]


def clipped(length, limit):
    """Rows of the tables by query and key."""
    return np.clip(distances(length), -limit, limit) + limit


def project(weights, name, inputs):
    """Queries, keys or values, `(B, N, T, H)`."""
    heads = np.einsum("btd,dnh->bnth", inputs, weights[f"{name}/kernel"])
    bias = weights.get(f"{name}/bias")
    return heads if bias is None else heads + bias[:, None]


def edges(weights, kind, rows):
    """The representation of each edge, `(B or 1, N or 1, T, S, H)`."""
    table = weights.get(f"{kind}_relation_embeddings")
    if table is None:
        width = weights[f"{kind}/kernel"].shape[-1]
        return np.zeros((1, 1, *rows.shape[-2:], width))
    table = table if table.ndim == 3 else table[None]
    rows = rows if rows.ndim == 3 else rows[None]
    chosen = table[:, np.maximum(rows, 0)].swapaxes(0, 1)
    return np.where(rows[:, None, :, :, None] < 0, 0, chosen)


def attention(weights, inputs, rows, mask=True):
    """Outputs and scores.

    Args:
        weights: what `weights_of` gives.
        inputs: array `(B, T, D)`.
        rows: int `(T, T)` or `(B, T, T)`, the row of the relation tables for
            each edge, negative for none.
        mask: bool, to be broadcast to `(B, T, T)`.
    """
    query, key, value = (
        project(weights, name, inputs) for name in ("query", "key", "value")
    )
    # x_j W^K + a_ij^K, and the same of values.
    keys = key[:, :, None] + edges(weights, "key", rows)
    values = value[:, :, None] + edges(weights, "value", rows)
    logits = (query[:, :, :, None] * keys).sum(-1) / query.shape[-1] ** 0.5
    mask = np.broadcast_to(mask, (len(inputs), *rows.shape[-2:]))[:, None]
    exponents = np.where(mask, np.exp(logits), 0)
    scores = exponents / exponents.sum(-1, keepdims=True)
    context = (scores[..., None] * values).sum(-2)
    outputs = np.einsum("bnth,nhd->btd", context, weights["output/kernel"])
    return outputs + weights.get("output/bias", 0), scores
