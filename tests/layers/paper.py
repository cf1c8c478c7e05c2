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
    if table is None or rows is None:
        return np.zeros(1)
    table = table if table.ndim == 3 else table[None]
    rows = rows if rows.ndim == 3 else rows[None]
    chosen = table[:, np.maximum(rows, 0)].swapaxes(0, 1)
    return np.where(rows[:, None, :, :, None] < 0, 0, chosen)


def attention(
    weights, inputs, rows=None, mask=True, source=None, bias=0, turn=None
):
    """Eqs. 2 to 4: the outputs and the fields of `AttentionTerms`, by name.

    Args:
        weights: what `weights_of` gives.
        inputs: array `(B, T, D)`.
        rows: int `(T, S)` or `(B, T, S)`, the row of the relation tables for
            each edge, negative for none; `None` for no tables.
        mask: bool, to be broadcast to `(B, T, S)`.
        source: array `(B, S, D)` of keys and values, if not the inputs.
        bias: array `(N, T, S)`, added to the logits.
        turn: function of queries or keys `(B, N, T, H)`, which turns them.
    """
    source = inputs if source is None else source
    query = project(weights, "query", inputs)
    key, value = (project(weights, name, source) for name in ("key", "value"))
    if turn is not None:
        query, key = turn(query), turn(key)
    query = query / query.shape[-1] ** 0.5
    content = np.einsum("bnth,bnsh->bnts", query, key)
    position = (query[:, :, :, None] * edges(weights, "key", rows)).sum(-1)
    position = position + bias
    shape = (len(inputs), inputs.shape[1], source.shape[1])
    exponents = np.exp(content + position)
    exponents = exponents * np.broadcast_to(mask, shape)[:, None]
    total = exponents.sum(-1, keepdims=True)
    scores = exponents / np.where(total == 0, 1, total)
    of_values = np.einsum("bnts,bnsh->bnth", scores, value)
    of_edges = (scores[..., None] * edges(weights, "value", rows)).sum(-2)
    outputs = np.einsum(
        "bnth,nhd->btd", of_values + of_edges, weights["output/kernel"]
    )
    return {
        "outputs": outputs + weights.get("output/bias", 0),
        "query": query,
        "value": value,
        "content_logits": content,
        "position_logits": position,
        "scores": scores,
        "value_context": of_values,
        "position_context": of_edges,
    }
