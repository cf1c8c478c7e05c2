"""Every implementation against the paper's equations in float64.

Two float32 results may both be right and yet differ: a gradient of a relation
table sums over all edges, terms that may cancel. So neither is the measure,
and how far off one may be comes from the sums: with each number of the
reference goes the sum of the magnitudes of its terms, and `n` roundings of
either sign add up to about `sqrt(n)` times the precision times that sum
(Higham and Mary, 2019).
"""

import dataclasses

import numpy as np
import pytest
from keras import ops

from relative_attention.layers import RelativeSelfAttention

N, H, D, K = 3, 7, 11, 3


@dataclasses.dataclass
class Sum:
    """Sums in float64, and the sums of the magnitudes of their terms."""

    value: np.ndarray
    magnitude: np.ndarray

    def __add__(self, other):
        return Sum(self.value + other.value, self.magnitude + other.magnitude)


def product(equation, *factors):
    """An einsum of arrays and `Sum`s."""
    factors = [
        factor if isinstance(factor, Sum) else Sum(factor, np.abs(factor))
        for factor in factors
    ]
    return Sum(
        np.einsum(equation, *(factor.value for factor in factors)),
        np.einsum(equation, *(factor.magnitude for factor in factors)),
    )


def softmax(logits, is_visible):
    exponents = np.where(is_visible, logits, -np.inf)
    scores = np.exp(exponents - exponents.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def outputs_and_gradients(x, weights, is_visible):
    """Eqs. 3 and 4, and gradients of the sum of the squares of the outputs.

    Returns `Sum`s: the outputs, and the gradients of `x` and of the weights.
    """
    x, *weights = (np.asarray(array, "float64") for array in (x, *weights))
    key_table, value_table, w_query, w_key, w_value, w_output = weights
    distance = np.arange(x.shape[1]) - np.arange(x.shape[1])[:, None]
    relations = np.clip(distance, -K, K) + K  # (T, S)
    edges = np.eye(2 * K + 1)[relations]  # (T, S, R)
    query, key, value = (
        np.einsum("btd,dnh->bnth", x, kernel)
        for kernel in (w_query * H**-0.5, w_key, w_value)
    )
    queries = np.arange(x.shape[1])[:, None]
    by_relation = query @ key_table.T
    logits = query @ key.swapaxes(-1, -2) + by_relation[..., queries, relations]
    scores = softmax(logits, is_visible)
    of_relation = np.einsum("bnts,tsr->bntr", scores, edges)
    context = scores @ value + of_relation @ value_table
    outputs = product("bnth,nhd->btd", context, w_output)

    d_outputs = 2 * outputs.value
    d_context = np.einsum("btd,nhd->bnth", d_outputs, w_output)
    d_scores = d_context @ value.swapaxes(-1, -2)
    d_scores += (d_context @ value_table.T)[..., queries, relations]
    mean = (scores * d_scores).sum(-1, keepdims=True)
    d_logits = Sum(
        scores * (d_scores - mean), scores * (np.abs(d_scores) + np.abs(mean))
    )
    d_relation = product("bnts,tsr->bntr", d_logits, edges)
    d_query = product("bnts,bnsh->bnth", d_logits, key) + product(
        "bntr,rh->bnth", d_relation, key_table
    )
    d_key = product("bnts,bnth->bnsh", d_logits, query)
    d_value = product("bnts,bnth->bnsh", scores, d_context)
    scale = np.array(H**-0.5)
    return [
        outputs,
        product(",bnth,dnh->btd", scale, d_query, w_query)
        + product("bnth,dnh->btd", d_key, w_key)
        + product("bnth,dnh->btd", d_value, w_value),
        product("bntr,bnth->rh", d_relation, query),
        product("bntr,bnth->rh", of_relation, d_context),
        product(",btd,bnth->dnh", scale, x, d_query),
        product("btd,bnth->dnh", x, d_key),
        product("btd,bnth->dnh", x, d_value),
        product("bnth,btd->nhd", context, d_outputs),
    ]


@pytest.mark.parametrize(
    "length, is_causal",
    [
        # Less than a block, and blocks of which the last is not full.
        (40, False),
        (300, True),
        pytest.param(40, True, marks=pytest.mark.large),
        pytest.param(64, False, marks=pytest.mark.large),
        pytest.param(64, True, marks=pytest.mark.large),
        pytest.param(300, False, marks=pytest.mark.large),
    ],
)
def test_every_implementation_is_the_equations(
    rng, gradients, length, is_causal
):
    x = rng.normal(size=(1, length, D)).astype("float32")
    is_visible = np.tri(length, dtype=bool) if is_causal else np.array(True)
    expected = None
    for implementation in ("transpose", "blocks"):
        layer = RelativeSelfAttention(N, H, K, implementation=implementation)
        layer.build((None, None, D))
        if expected is None:
            weights = layer.get_weights()
            expected = outputs_and_gradients(x, weights, is_visible)
        layer.set_weights(weights)
        results = [
            ops.convert_to_numpy(layer(x, use_causal_mask=is_causal)),
            *gradients(
                lambda x, layer=layer: ops.sum(
                    ops.square(layer(x, use_causal_mask=is_causal))
                ),
                [x],
                layer.trainable_variables,
            ),
        ]
        # The longest sums are those over all edges, of every head.
        bound = (N * length**2) ** 0.5 * np.finfo("float32").eps
        for result, wanted in zip(results, expected, strict=True):
            error = np.abs(result - wanted.value)
            assert (error <= bound * wanted.magnitude).all()
