"""What padding does, in every attention layer and with any reach."""

import functools

import numpy as np
import pytest
from keras import ops

import relative_attention as ra

B, T, D, N, H = 2, 7, 11, 3, 4
# Sentences of other tokens, padded on the right and on the left.
IS_REAL = np.array([[1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]], bool)

LAYERS = {
    "relative_clipped_at_0": (
        ra.RelativeSelfAttention,
        {"max_relative_position": 0},
    ),
    "relative": (ra.RelativeSelfAttention, {"max_relative_position": 100}),
    "global_reach_1": (
        ra.RelativeGlobalAttention,
        {"max_relative_position": 1, "use_value_relations": True},
    ),
    "global_causal": (
        ra.RelativeGlobalAttention,
        {
            "max_relative_position": 100,
            "causal": True,
            "use_value_relations": True,
        },
    ),
    "relation_aware": (
        ra.RelationAwareSelfAttention,
        {"num_relations": 4, "no_relation": -1},
    ),
    "cross": (ra.CrossAttention, {}),
}


@pytest.fixture(scope="module", params=LAYERS)
def attend(request):
    """`attend(dtype)`: a layer, and a call of it on tokens and their mask.

    A layer is built once and serves all tests; none changes its weights.
    """
    cls, arguments = LAYERS[request.param]
    rng = np.random.default_rng(1803)
    queries = rng.normal(size=(B, 5, D)).astype("float32")
    relations = rng.integers(-1, 4, size=(B, T, T)).astype("int32")

    @functools.cache
    def build(dtype="float32"):
        layer = cls(N, H, use_bias=True, dtype=dtype, **arguments)
        shape = (None, None, D)
        layer.build(*([shape, shape] if cls is ra.CrossAttention else [shape]))
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) / 2)

        def call(inputs, is_real, tokens=slice(None)):
            """Outputs and scores of some of the tokens."""
            inputs, is_real = inputs[:, tokens], is_real[:, tokens]
            if cls is ra.CrossAttention:
                return layer(
                    queries,
                    inputs,
                    padding_mask=is_real,
                    return_attention_scores=True,
                )
            graph = {}
            if cls is ra.RelationAwareSelfAttention:
                graph["relations"] = relations[:, tokens, tokens]
            return layer(
                inputs,
                attention_mask=is_real[:, None],
                return_attention_scores=True,
                **graph,
            )

        return layer, call

    return build


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, T, D)).astype("float32")


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def of_real_queries(outputs):
    """Rows of real tokens; all, where queries are not the tokens."""
    outputs = np.array(outputs)
    return outputs[IS_REAL] if outputs.shape[1] == T else outputs


def test_padded_token_changes_nothing(rng, inputs, attend):
    _, call = attend()
    outputs, scores = call(inputs, IS_REAL)
    padded = np.broadcast_to(~IS_REAL[:, None, None], scores.shape)
    assert not np.array(scores)[padded].any()
    changed = np.where(IS_REAL[..., None], inputs, 100 * rng.normal(size=(D,)))
    changed_outputs, _ = call(changed.astype("float32"), IS_REAL)
    assert_same(of_real_queries(changed_outputs), of_real_queries(outputs))
    # A real token does change outputs.
    changed_outputs, _ = call(-inputs, IS_REAL)
    difference = of_real_queries(changed_outputs) - of_real_queries(outputs)
    assert np.abs(difference).max() > 1e-2


@pytest.mark.parametrize(
    "sentence, tokens", [(0, slice(None, 4)), (1, slice(2, None))]
)
def test_sentence_without_its_padding_has_the_same_outputs(
    inputs, attend, sentence, tokens
):
    _, call = attend()
    outputs, _ = call(inputs, IS_REAL)
    alone, _ = call(inputs, IS_REAL, tokens)
    outputs, alone = np.array(outputs)[sentence], np.array(alone)[sentence]
    if len(outputs) == T:
        outputs = outputs[tokens]
    assert_same(alone, outputs)


@pytest.mark.parametrize(
    "dtype",
    [
        "mixed_float16",
        *(
            pytest.param(dtype, marks=pytest.mark.large)
            for dtype in ("float32", "float16", "bfloat16", "mixed_bfloat16")
        ),
    ],
)
def test_sentence_that_is_all_padding_is_finite(
    inputs, attend, gradients, dtype
):
    layer, call = attend(dtype)
    is_real = IS_REAL.copy()
    is_real[0] = False
    outputs, scores = (
        np.array(ops.cast(result, "float32"))
        for result in call(inputs, is_real)
    )
    assert not scores[0].any()
    bias = np.array(ops.cast(layer.output_dense.bias, "float32"))
    np.testing.assert_allclose(
        outputs[0], np.broadcast_to(bias, outputs[0].shape), rtol=1e-2
    )
    assert np.isfinite(outputs).all()
    of_inputs, *of_weights = (
        gradient.astype("float32")
        for gradient in gradients(
            lambda x: ops.sum(ops.cast(call(x, is_real)[0], "float32")),
            [inputs],
            layer.trainable_weights,
        )
    )
    for gradient in of_weights:
        assert np.isfinite(gradient).all()
    assert np.isfinite(of_inputs).all()
    assert not of_inputs[0].any()
    assert of_inputs[1].any()
