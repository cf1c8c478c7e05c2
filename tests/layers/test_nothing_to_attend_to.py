"""A batch without sentences, and sentences without tokens."""

import numpy as np
import pytest
from keras import ops

from relative_attention.layers import CrossAttention
from relative_attention.layers import RelationAwareSelfAttention
from relative_attention.layers import RelativeGlobalAttention
from relative_attention.layers import RelativeSelfAttention

D, N, H, K = 6, 2, 4, 3


def graph(x):
    return [np.zeros(x.shape[1:2] * 2, "int32")]


def graphs(x):
    return [np.zeros((len(x), *x.shape[1:2] * 2), "int32")]


KINDS = {
    "transpose": (
        lambda: RelativeSelfAttention(N, H, K, implementation="transpose"),
        None,
    ),
    "blocks": (
        lambda: RelativeSelfAttention(
            N, H, K, implementation="blocks", dropout=0.5
        ),
        None,
    ),
    "global": (
        lambda: RelativeGlobalAttention(N, H, K, use_value_relations=True),
        None,
    ),
    "causal_global": (
        lambda: RelativeGlobalAttention(
            N, H, K, use_value_relations=True, causal=True
        ),
        None,
    ),
    "graph": (lambda: RelationAwareSelfAttention(N, H, K), graph),
    "graphs": (lambda: RelationAwareSelfAttention(N, H, K), graphs),
    "cross": (lambda: CrossAttention(N, H), lambda x: [x]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batch_size", "length"),
    [
        (0, 5),
        (2, 0),
        pytest.param(0, 0, marks=pytest.mark.large),
    ],
)
def test_outputs_are_empty_and_gradients_zero(
    gradients, kind, batch_size, length
):
    build, find_arguments = KINDS[kind]
    layer = build()
    x = np.zeros((batch_size, length, D), "float32")
    arguments = find_arguments(x) if find_arguments else []
    options = {"training": True}
    if kind != "cross":
        options["use_causal_mask"] = True
    outputs = layer(x, *arguments, **options)
    assert tuple(outputs.shape) == x.shape
    for gradient in gradients(
        lambda: ops.sum(layer(x, *arguments, **options)),
        [],
        layer.trainable_variables,
    ):
        np.testing.assert_array_equal(gradient, 0)
