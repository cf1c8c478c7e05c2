"""One head with tables of its own is one head whose tables are shared.

The products of the two must not differ either: TensorFlow's oneDNN miscomputes
those in which a single head's table is broadcast over sentences, or crashes.
"""

import numpy as np
import pytest
from keras import ops

from relative_attention.layers import RelationAwareSelfAttention
from relative_attention.layers import RelativeGlobalAttention
from relative_attention.layers import RelativeSelfAttention

B, T, D, H, H_V, K = 4, 65, 11, 8, 7, 8


def relations():
    distance = np.arange(T) - np.arange(T)[:, None]
    return np.clip(distance, -K, K) + K


KINDS = {
    "transpose": (RelativeSelfAttention, {"implementation": "transpose"}, []),
    "blocks": (RelativeSelfAttention, {"implementation": "blocks"}, []),
    "global": (RelativeGlobalAttention, {"use_value_relations": True}, []),
    "graph": (RelationAwareSelfAttention, {}, [relations()]),
    "graphs": (
        RelationAwareSelfAttention,
        {},
        [np.stack([relations()] * B)],
    ),
}


@pytest.mark.parametrize(
    "kind",
    [
        "blocks",
        "global",
        "graphs",
        *(
            pytest.param(kind, marks=pytest.mark.large)
            for kind in ("transpose", "graph")
        ),
    ],
)
def test_one_head_of_its_own_is_one_that_is_shared(rng, gradients, kind):
    cls, arguments, call_arguments = KINDS[kind]
    num_rows = 2 * K + 1 if cls is RelationAwareSelfAttention else K
    x = rng.normal(size=(B, T, D)).astype("float32")
    shared, apart = (
        cls(
            1,
            H,
            num_rows,
            value_dim=H_V,
            share_relations_across_heads=share,
            **arguments,
        )
        for share in (True, False)
    )
    for layer in (shared, apart):
        layer.build(x.shape)
    assert apart.value_relation_embeddings.shape == (
        1,
        *shared.value_relation_embeddings.shape,
    )
    apart.set_weights(
        [
            weight.reshape(variable.shape)
            for weight, variable in zip(shared.get_weights(), apart.weights)
        ]
    )
    expected, results = (
        [
            layer(x, *call_arguments),
            *gradients(
                lambda x, layer=layer: ops.sum(
                    ops.square(layer(x, *call_arguments))
                ),
                [x],
                layer.trainable_variables,
            ),
        ]
        for layer in (shared, apart)
    )
    for result, wanted in zip(results, expected, strict=True):
        result, wanted = np.array(result), np.array(wanted)
        error = np.abs(result.reshape(wanted.shape) - wanted).max()
        assert error <= 1e-5 * np.abs(wanted).max()


def test_one_head_of_its_own_decodes_as_it_trains(rng):
    layer = RelativeSelfAttention(1, H, 3, share_relations_across_heads=False)
    layer.build((None, None, D))
    x = rng.normal(size=(B, 4, D)).astype("float32")
    cache = layer.start_cache(B)
    steps = []
    for position in range(4):
        step, cache = layer.decode_step(
            x[:, position : position + 1], cache, position
        )
        steps.append(step)
    np.testing.assert_allclose(
        ops.concatenate(steps, axis=1),
        layer(x, use_causal_mask=True),
        rtol=1e-5,
        atol=1e-5,
    )
