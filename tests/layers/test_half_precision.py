"""Gradients in half precision beside those of float32.

Both layers have the same weights and inputs, rounded to half precision, so
that what differs is what each computes; float32 is exact enough to measure by.
"""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import RelationAwareSelfAttention
from relative_attention.layers import RelativeGlobalAttention
from relative_attention.layers import RelativeSelfAttention
from relative_attention.layers import SelfAttention
from tests.layers.paper import clipped

B, D, N, H, K = 4, 32, 2, 16, 8


KINDS = {
    "transpose": lambda **arguments: RelativeSelfAttention(
        N, H, K, implementation="transpose", **arguments
    ),
    "auto": lambda **arguments: RelativeSelfAttention(N, H, K, **arguments),
    "global": lambda **arguments: RelativeGlobalAttention(
        N, H, K, use_value_relations=True, **arguments
    ),
    "graph": lambda **arguments: RelationAwareSelfAttention(
        N, H, 2 * K + 1, **arguments
    ),
    # Its table is of all heads.
    "t5": lambda share_relations_across_heads, **arguments: SelfAttention(
        N, H, "t5", **arguments
    ),
}


def relative_errors(rng, gradients, build, x, dtype):
    """Of each gradient, the norm of what it is off by over its norm."""

    def rounded(array):
        return np.array(ops.cast(ops.cast(array, dtype), "float32"))

    x = rounded(x)
    upstream = ops.convert_to_tensor(rounded(rng.normal(size=x.shape)))
    layers = [build(dtype=policy) for policy in ("float32", f"mixed_{dtype}")]
    for layer in layers:
        layer.build(x.shape)
    weights = [rounded(weight) for weight in layers[0].get_weights()]
    is_graph = isinstance(layers[0], RelationAwareSelfAttention)
    arguments = [clipped(x.shape[1], K)] if is_graph else []

    def find_gradients(layer):
        layer.set_weights(weights)
        return gradients(
            lambda: ops.sum(
                ops.cast(layer(x, *arguments), "float32") * upstream
            ),
            [],
            layer.trainable_variables,
        )

    expected, results = map(find_gradients, layers)
    return {
        variable.path.split("/", 1)[1]: np.linalg.norm(result - wanted)
        / np.linalg.norm(wanted)
        for variable, result, wanted in zip(
            layers[0].trainable_variables, results, expected, strict=True
        )
    }


# Sums in half precision are off by 0.2, and 0.02 in float16. Where a processor
# multiplies bfloat16 itself the error is under 0.01; where TensorFlow does it
# without oneDNN, products of 256 terms are rounded on the way: 0.03.
_TABLE_BOUNDS = {"float16": 0.005, "bfloat16": 0.04}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(True, id="shared"),
        pytest.param(False, id="apart", marks=pytest.mark.large),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_tables_are_summed_in_float32(
    rng, gradients, kind, share, dtype
):
    errors = relative_errors(
        rng,
        gradients,
        lambda **arguments: KINDS[kind](
            share_relations_across_heads=share, **arguments
        ),
        rng.normal(size=(B, 256 if share else 32, D)),
        dtype,
    )
    tables = [name for name in errors if "relati" in name]
    assert len(tables) == (1 if kind == "t5" else 2)
    for table in tables:
        assert 0 < errors[table] < _TABLE_BOUNDS[dtype]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["transpose", "auto"])
def test_common_offset_of_inputs_adds_no_error(rng, gradients, kind, dtype):
    # Gradients of the logits of a query sum to zero. What rounding left of
    # that sum would weigh as much as the mean of the inputs.
    errors = relative_errors(
        rng,
        gradients,
        lambda **arguments: KINDS[kind](
            kernel_initializer=keras.initializers.RandomNormal(
                stddev=0.02, seed=1
            ),
            **arguments,
        ),
        10 + rng.normal(size=(B, 256, D)),
        dtype,
    )
    assert errors["key/kernel"] < 0.05
    assert errors["query/kernel"] < 0.05


def test_long_sequence_of_large_values_does_not_overflow():
    # 4,096 values of 30 sum to twice the largest number of float16.
    layer = KINDS["auto"](
        value_dim=1,
        output_shape=1,
        kernel_initializer="zeros",
        dtype="mixed_float16",
    )
    layer.build((None, None, 1))
    layer.value_dense.kernel.assign(np.ones((1, N, 1)))
    layer.output_dense.kernel.assign(np.ones((N, 1, 1)) / N)
    layer.value_relation_embeddings.assign(np.zeros((2 * K + 1, 1)))
    outputs = layer(np.full((1, 4096, 1), 30, "float32"))
    np.testing.assert_allclose(ops.cast(outputs, "float32"), 30, rtol=0.01)
