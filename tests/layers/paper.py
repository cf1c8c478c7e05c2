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


def attention(weights, inputs, rows, mask=True):
    """Outputs and scores.

    Args:
        weights: what `weights_of` gives.
        inputs: array `(B, T, D)`.
        rows: int `(T, T)` or `(B, T, T)`, the row of the relation tables for
            each edge, negative for none.
        mask: bool, to be broadcast to `(B, T, T)`.
    """

    def project(name):
        heads = np.einsum("btd,dnh->bnth", inputs, weights[f"{name}/kernel"])
        bias = weights.get(f"{name}/bias")
        return heads if bias is None else heads + bias[:, None]

    batch_size, length, _ = inputs.shape
    rows = np.broadcast_to(rows, (batch_size, length, length))

    def edges(kind):
        """The representation of each edge, `(B, N, T, T, H)`."""
        table = weights.get(f"{kind}_relation_embeddings")
        if table is None:
            return 0
        table = table if table.ndim == 3 else table[None]
        chosen = table[:, np.maximum(rows, 0)].swapaxes(0, 1)
        return np.where(rows[:, None, :, :, None] < 0, 0, chosen)

    query, key, value = map(project, ("query", "key", "value"))
    keys = key[:, :, None] + edges("key")  # x_j W^K + a_ij^K
    values = value[:, :, None] + edges("value")  # x_j W^V + a_ij^V
    logits = (query[:, :, :, None] * keys).sum(-1) / query.shape[-1] ** 0.5
    mask = np.broadcast_to(mask, rows.shape)[:, None]
    exponents = np.where(mask, np.exp(logits), 0)
    scores = exponents / exponents.sum(-1, keepdims=True)
    context = (scores[..., None] * values).sum(-2)
    outputs = np.einsum("bnth,nhd->btd", context, weights["output/kernel"])
    return outputs + weights.get("output/bias", 0), scores
