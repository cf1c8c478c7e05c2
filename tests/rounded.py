"""Attention in float64 with its gradients, and how far off others may be.

A loop-free form of eqs. 2 to 5 of Shaw et al. (2018) and of their derivatives,
in NumPy alone. With each number goes a bound of the error of a computation in
another dtype: it grows with the number of additions and the size of what is
added, and never with what was seen in a run.
"""

import numpy as np


class Rounded:
    """Numbers, and how far off they may be, in units of rounding.

    A unit is the largest relative error of one rounding, `eps / 2`. To first
    order an error grows by that of the operands, and by one rounding of the
    sum of the absolute terms for each addition (Higham 2002, section 3.1).
    """

    def __init__(self, value, error=0.0):
        self.value = np.asarray(value, "float64")
        self.error = np.broadcast_to(
            np.asarray(error, "float64"), self.value.shape
        )

    def __add__(self, other):
        value = self.value + other.value
        return Rounded(value, self.error + other.error + np.abs(value))

    def __mul__(self, factor):
        """The product with numbers that are exact but for one rounding."""
        error = self.error + 2 * np.abs(self.value)
        return Rounded(self.value * factor, error * np.abs(factor))

    def __getitem__(self, index):
        return Rounded(self.value[index], self.error[index])


def einsum(equation, a, b):
    """Sums products, as `np.einsum`, with as many roundings as terms."""
    inputs, output = equation.split("->")
    sizes = {
        letter: size
        for letters, x in zip(inputs.split(","), (a, b))
        for letter, size in zip(letters, x.value.shape)
    }
    terms = np.prod(
        [size for letter, size in sizes.items() if letter not in output]
    )
    total, of_a, of_b, product = (
        np.einsum(equation, x, y)
        for x, y in (
            (np.abs(a.value), np.abs(b.value)),
            (a.error, np.abs(b.value)),
            (np.abs(a.value), b.error),
            (a.value, b.value),
        )
    )
    return Rounded(product, of_a + of_b + (terms + 1) * total)


def summed(x, axes, keepdims=False):
    axes = tuple(np.atleast_1d(axes))
    terms = np.prod([x.value.shape[axis] for axis in axes])
    value, error, total = (
        y.sum(axis=axes, keepdims=keepdims)
        for y in (x.value, x.error, np.abs(x.value))
    )
    return Rounded(value, error + terms * total)


def softmax(logits, mask):
    """Scores of keys, all 0 in a row that sees nothing."""
    mask = np.broadcast_to(mask, logits.value.shape)
    shown = np.where(mask, logits.value, -np.inf)
    highest = np.where(mask.any(-1), shown.max(-1), 0)[..., None]
    exponents = np.exp(shown - highest)
    total = exponents.sum(-1, keepdims=True)
    scores = exponents / np.where(total == 0, 1, total)
    # d P_i = P_i (d l_i - sum_j P_j d l_j); the logit less the highest, its
    # exponent, the sum and the quotient are rounded.
    roundings = np.abs(np.where(mask, shown - highest, 0)) + mask.shape[-1] + 3
    error = logits.error + roundings
    error = scores * (error + (scores * error).sum(-1, keepdims=True))
    return Rounded(scores, error)


def softmax_gradient(scores, d_scores):
    """`P (dP - sum_j P_j dP_j)`, eq. 5's gradient."""
    product = einsum("bnts,bnts->bnts", scores, d_scores)
    row = summed(product, 3, keepdims=True)
    difference = Rounded(
        d_scores.value - row.value,
        d_scores.error + row.error + np.abs(d_scores.value) + np.abs(row.value),
    )
    return einsum("bnts,bnts->bnts", scores, difference)


def attention(
    weights,
    inputs,
    source,
    mask,
    edges=None,
    bias_edges=None,
    turns=None,
    factors=1.0,
    upstream=None,
):
    """Outputs, scores and gradients of `sum(outputs * upstream)`, by name.

    Args:
        weights: dict of `Rounded` by name: `query/kernel` `(D, N, H)`,
            `query/bias` `(N, H)`, the same of key and value, `output/kernel`
            `(N, H_v, D)`, `output/bias`; tables `keys` and `values`
            `(N or 1, R, H)`, and `bias` `(R, N)`, where there are any.
        inputs: array `(B, T, D)`.
        source: array `(B, S, D)`, or `None` for self-attention.
        mask: bool, broadcasts to `(B, N, T, S)`.
        edges: array `(B, T, S, R)`: how much of each row of a table an edge
            has.
        bias_edges: array `(B, T, S, R)`, the same for `bias`.
        turns: `Rounded` `(T, H, H)`, how queries and keys are rotated.
        factors: array `(B, N, T, S)`, what dropout multiplies by.
        upstream: array `(B, T, D)`.
    """
    w, x = weights, Rounded(inputs)
    y = x if source is None else Rounded(source)
    scale = w["query/kernel"].value.shape[-1] ** -0.5

    def project(name, x):
        heads = einsum("btd,dnh->bnth", x, w[f"{name}/kernel"])
        return heads + w[f"{name}/bias"][:, None]

    query, key = project("query", x) * scale, project("key", y)
    value = project("value", y)
    if turns is not None:
        query, key = (einsum("bnth,thg->bntg", z, turns) for z in (query, key))
    logits = einsum("bnth,bnsh->bnts", query, key)
    tables = {}
    for name in ("keys", "values"):
        if name in w:
            heads = len(w["query/bias"].value)
            table = np.broadcast_to(
                w[name].value, (heads, *w[name].value.shape[1:])
            )
            edge = np.einsum("btsr,nrh->bntsh", edges, table)
            # A path may add the largest distance's row to all edges, and to
            # each what it differs by: both are as large as the table.
            largest = np.abs(table).max(1)[:, None, None]
            weight = np.abs(edges).max()
            tables[name] = Rounded(edge, 4 * weight * largest)
    if "keys" in tables:
        logits += einsum("bnth,bntsh->bnts", query, tables["keys"])
    if "bias" in w:
        logits += einsum("btsr,rn->bnts", Rounded(bias_edges), w["bias"])
    scores = softmax(logits, mask)
    kept = scores * np.broadcast_to(factors, scores.value.shape)
    context = einsum("bnts,bnsh->bnth", kept, value)
    if "values" in tables:
        context += einsum("bnts,bntsh->bnth", kept, tables["values"])
    outputs = einsum("bnth,nhd->btd", context, w["output/kernel"])
    results = {"outputs": outputs + w["output/bias"], "scores": scores}
    if upstream is None:
        return results

    # The gradients, from the last equation to the first.
    d = {}
    d_outputs = Rounded(upstream)
    d["output/bias"] = summed(d_outputs, (0, 1))
    d["output/kernel"] = einsum("bnth,btd->nhd", context, d_outputs)
    d_context = einsum("btd,nhd->bnth", d_outputs, w["output/kernel"])
    d_kept = einsum("bnth,bnsh->bnts", d_context, value)
    d_value = einsum("bnts,bnth->bnsh", kept, d_context)
    if "values" in tables:
        d_kept += einsum("bnth,bntsh->bnts", d_context, tables["values"])
        d["values"] = table_gradient(kept, edges, d_context, w["values"])
    d_scores = d_kept * np.broadcast_to(factors, scores.value.shape)
    d_logits = softmax_gradient(scores, d_scores)
    d_query = einsum("bnts,bnsh->bnth", d_logits, key)
    d_key = einsum("bnts,bnth->bnsh", d_logits, query)
    if "keys" in tables:
        d_query += einsum("bnts,bntsh->bnth", d_logits, tables["keys"])
        d["keys"] = table_gradient(d_logits, edges, query, w["keys"])
    if "bias" in w:
        d["bias"] = einsum("btsr,bnts->rn", Rounded(bias_edges), d_logits)
    if turns is not None:
        d_query, d_key = (
            einsum("bntg,thg->bnth", z, turns) for z in (d_query, d_key)
        )
    d_inputs = []
    for name, z, d_heads in (
        ("query", x, d_query * scale),
        ("key", y, d_key),
        ("value", y, d_value),
    ):
        d[f"{name}/bias"] = summed(d_heads, (0, 2))
        d[f"{name}/kernel"] = einsum("btd,bnth->dnh", z, d_heads)
        d_inputs.append(einsum("bnth,dnh->btd", d_heads, w[f"{name}/kernel"]))
    of_query, of_key, of_value = d_inputs
    if source is None:
        d["inputs"] = of_query + of_key + of_value
    else:
        d["inputs"], d["source"] = of_query, of_key + of_value
    return results | {f"d {name}": gradient for name, gradient in d.items()}


def table_gradient(scores, edges, vectors, table):
    """`sum_bts a_bnts e_btsr x_bnth`, summed over heads that share a table."""
    by_row = einsum("bnts,btsr->bntr", scores, Rounded(edges))
    gradient = einsum("bntr,bnth->nrh", by_row, vectors)
    if table.value.shape[0] == 1:
        gradient = summed(gradient, 0, keepdims=True)
    # That of one row may be found as that of all, less that of the others.
    of_all = gradient.error.sum(1, keepdims=True)
    return Rounded(gradient.value, gradient.error + of_all)
