import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers.dense import HeadProjection
from relative_attention.layers.dense import project_to_heads

B, T, D, N, H = 2, 5, 7, 3, 11
EQUATIONS = pytest.mark.parametrize(
    "equation, output_shape, bias_axes, input_shape",
    [
        ("btd,dnh->btnh", (None, N, H), "nh", (B, T, D)),
        ("btnh,nhd->btd", (None, D), "d", (B, T, N, H)),
    ],
    ids=["into_heads", "out_of_heads"],
)


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@EQUATIONS
@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
def test_layer_is_einsum_dense(
    rng, gradients, equation, output_shape, bias_axes, input_shape, use_bias
):
    inputs = normal(rng, *input_shape)
    layers = [
        cls(
            equation,
            output_shape,
            bias_axes=bias_axes if use_bias else None,
        )
        for cls in (HeadProjection, keras.layers.EinsumDense)
    ]
    for layer in layers:
        layer.build((None, *input_shape[1:]))
    weights = [normal(rng, *weight.shape) for weight in layers[0].weights]
    assert len(weights) == 1 + use_bias
    for layer in layers:
        layer.set_weights(weights)
    outputs, expected = (np.array(layer(inputs)) for layer in layers)
    assert outputs.shape == expected.shape
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)

    upstream = ops.array(normal(rng, *expected.shape))
    results, wanted = (
        gradients(
            lambda inputs, layer=layer: ops.sum(layer(inputs) * upstream),
            [inputs],
            layer.trainable_weights,
        )
        for layer in layers
    )
    assert len(results) == 2 + use_bias
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)


@EQUATIONS
def test_layer_behaves_as_a_keras_layer(
    rng, run_layer_test, equation, output_shape, bias_axes, input_shape
):
    layer = HeadProjection(
        equation, (T, *output_shape[1:]), bias_axes=bias_axes
    )
    run_layer_test(layer, [normal(rng, *input_shape)], num_weights=2)


@pytest.mark.parametrize(
    "head_dims, use_bias, dtype",
    [
        ((H,), True, "float32"),
        ((H, H, H), False, "float32"),
        ((H, H, H), True, "mixed_float16"),
        ((H, H, 13), True, "float32"),
        ((H, H, 13), False, "mixed_float16"),
    ],
    ids=str,
)
def test_project_to_heads_is_each_projection(rng, head_dims, use_bias, dtype):
    inputs = normal(rng, B, T, D)
    projections = []
    for head_dim in head_dims:
        projection = HeadProjection(
            "btd,dnh->btnh",
            (None, N, head_dim),
            bias_axes="nh" if use_bias else None,
            dtype=dtype,
        )
        projection.build((None, None, D))
        for weight in projection.weights:
            weight.assign(normal(rng, *weight.shape))
        projections.append(projection)
    compute_dtype = projections[0].compute_dtype
    results = project_to_heads(ops.cast(inputs, compute_dtype), projections)
    assert len(results) == len(projections)
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    for result, projection in zip(results, projections):
        assert keras.backend.standardize_dtype(result.dtype) == compute_dtype
        kernel, *bias = (np.array(w, "float64") for w in projection.weights)
        expected = np.einsum("btd,dnh->bnth", inputs, kernel)
        if bias:
            expected += bias[0][:, None, :]
        np.testing.assert_allclose(
            ops.cast(result, "float32"),
            expected,
            rtol=tolerance,
            atol=tolerance,
        )
