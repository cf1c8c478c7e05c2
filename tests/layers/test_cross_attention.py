"""`CrossAttention` beside Keras' layer and tensor2tensor's."""

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import CrossAttention

B, T, S, D, D_SOURCE, N, H = 2, 5, 7, 11, 13, 3, 4


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return [normal(rng, B, T, D), normal(rng, B, S, D_SOURCE)]


@pytest.fixture
def build_layer(rng):
    def build(**arguments):
        layer = CrossAttention(N, H, **arguments)
        layer.build((None, None, D), (None, None, D_SOURCE))
        for weight in layer.trainable_weights:
            weight.assign(normal(rng, *weight.shape) / 2)
        return layer

    return build


@pytest.fixture
def padding_mask():
    return np.arange(S) < np.array([4, S])[:, None]


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "value_dim, output_shape, use_bias, padded",
    [
        (H, None, False, False),
        (H, None, True, True),
        (17, 19, True, False),
        (17, 19, False, True),
    ],
)
def test_layer_is_multi_head_attention(
    inputs, build_layer, padding_mask, value_dim, output_shape, use_bias, padded
):
    arguments = {
        "value_dim": value_dim,
        "output_shape": output_shape,
        "use_bias": use_bias,
    }
    layer = build_layer(**arguments)
    keras_layer = keras.layers.MultiHeadAttention(N, H, **arguments)
    queries, source = inputs
    keras_layer.build(queries.shape, source.shape)
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(keras_layer, name).set_weights(
            getattr(layer, name).get_weights()
        )
    results = layer(
        queries,
        source,
        padding_mask=padding_mask if padded else None,
        return_attention_scores=True,
    )
    expected = keras_layer(
        queries,
        source,
        attention_mask=padding_mask[:, None, :] if padded else None,
        return_attention_scores=True,
    )
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_outputs_and_gradients_are_tensor2tensors(golden, gradients):
    golden = golden("A4_multihead_attention")
    info = golden.info["cases"][8]
    assert info["memory_length"] == 9
    data = {
        key.removeprefix("case8/"): array
        for key, array in golden.items()
        if key.startswith("case8/")
    }
    layer = CrossAttention(
        info["num_heads"],
        info["total_key_depth"] // info["num_heads"],
        value_dim=info["total_value_depth"] // info["num_heads"],
        output_shape=info["output_depth"],
    )
    queries, source = data["query_antecedent"], data["memory_antecedent"]
    layer.build(queries.shape, source.shape)
    kernels = {
        "q": layer.query_dense.kernel,
        "k": layer.key_dense.kernel,
        "v": layer.value_dense.kernel,
        "output_transform": layer.output_dense.kernel,
    }
    for name, kernel in kernels.items():
        values = data[f"vars/multihead_attention/{name}/kernel"]
        kernel.assign(values.reshape(kernel.shape))
    padding_mask = data["bias"][:, 0, 0] > -1
    assert not padding_mask.all()
    outputs, scores = layer(
        queries,
        source,
        padding_mask=padding_mask,
        return_attention_scores=True,
    )
    assert_same(outputs, data["output"])
    assert_same(scores, data["weights"])

    results = gradients(
        lambda queries, source: ops.sum(
            ops.multiply(
                layer(queries, source, padding_mask=padding_mask),
                data["grad_projection"],
            )
        ),
        [queries, source],
        list(kernels.values()),
    )
    assert_same(results[0], data["grad_query_antecedent"])
    assert_same(results[1], data["grad_memory_antecedent"])
    for name, result in zip(kernels, results[2:]):
        expected = data[f"grads/multihead_attention/{name}/kernel"]
        assert_same(result, expected.reshape(result.shape))


def test_fully_padded_source_gives_zeros(inputs, build_layer, padding_mask):
    layer = build_layer()
    padding_mask[0] = False
    outputs = np.array(layer(*inputs, padding_mask=padding_mask))
    assert not outputs[0].any()
    assert outputs[1].all()
