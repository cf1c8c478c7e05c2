"""The definition of `RelativeGlobalAttention`, by loops and tensor2tensor."""

import numpy as np
import pytest

import relative_attention as ra

B, T, D, N, H, M = 2, 7, 11, 3, 4, 3


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture
def build_layer(randomize):
    def build(max_relative_position=M, **arguments):
        layer = ra.RelativeGlobalAttention(
            N, H, max_relative_position, **arguments
        )
        layer.build((None, None, D))
        return randomize(layer)

    return build


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def rows(reach):
    """Rows of the tables by query and key; -1 for distances without one."""
    distance = np.arange(T) - np.arange(T)[:, None]
    return np.where(np.abs(distance) < reach, distance + reach - 1, -1)


def past_rows(reach):
    """As `rows`, for tables without rows for the future."""
    return np.tril(rows(reach))


# Half of them with a causal mask; tables shared or not, values with relations
# or without; relations beyond the table, and a table beyond the sentence.
CASES = [
    *range(10),
    *(11, *range(16, 20), 23),
    *range(24, 34),
    *(35, 38, *range(40, 44)),
]


@pytest.mark.parametrize(
    "case",
    [
        # Each way once, the lengths and reaches in turns; the rest are large.
        case
        if case in (0, 8, 9, 18, 23, 28, 33, 38, 43)
        else pytest.param(case, marks=pytest.mark.large)
        for case in CASES
    ],
)
def test_outputs_and_scores_are_tensor2tensors(golden, case):
    info, data = golden("A5_relative_v2").case(case)
    batch_size, num_heads, length, dim = data["q"].shape
    width = num_heads * dim
    layer = ra.RelativeGlobalAttention(
        num_heads,
        dim,
        info["max_relative_position"],
        causal=info["masked"],
        use_value_relations=info["add_relative_to_values"],
        share_relations_across_heads=info["heads_share_relative_embedding"],
        output_shape=width,
    )
    # Inputs are queries, keys and values side by side, and the kernels pick.
    inputs = np.concatenate(
        [
            data[name].swapaxes(1, 2).reshape(batch_size, length, width)
            for name in "qkv"
        ],
        axis=-1,
    )
    layer.build(inputs.shape)
    pick = np.eye(3 * width).reshape(3 * width, 3, num_heads, dim)
    # tensor2tensor's queries are scaled, the layer scales its own.
    layer.query_dense.kernel.assign(pick[:, 0] * dim**0.5)
    layer.key_dense.kernel.assign(pick[:, 1])
    layer.value_dense.kernel.assign(pick[:, 2])
    layer.output_dense.kernel.assign(
        np.eye(width).reshape(num_heads, dim, width)
    )
    layer.key_relation_embeddings.assign(data["key_relative_embeddings"])
    if info["add_relative_to_values"]:
        layer.value_relation_embeddings.assign(
            data["value_relative_embeddings"]
        )
    mask = None if info["masked"] else data["bias"][:, 0] > -1
    outputs, scores = layer(
        inputs, attention_mask=mask, return_attention_scores=True
    )
    expected = data["output"].swapaxes(1, 2).reshape(outputs.shape)
    assert_same(outputs, expected)
    assert_same(scores, data["weights"])


# Tables far shorter than the sentence, shorter, as long, and longer.
@pytest.mark.parametrize(
    "reach, causal, arguments",
    [
        (1, False, {"value_dim": 5}),
        (1, True, {"share_relations_across_heads": True}),
        (M, False, {"share_relations_across_heads": True, "use_bias": True}),
        (M, True, {"value_dim": 5, "use_bias": True}),
        (T, False, {}),
        (T + 4, True, {"value_dim": 5}),
        (T + 4, False, {"share_relations_across_heads": True}),
        (M, True, {"use_value_relations": False}),
        (M, False, {"use_key_relations": False}),
        (M, True, {"use_key_relations": False, "use_value_relations": False}),
    ],
    ids=[
        "one",
        "one-causal",
        "few",
        "few-causal",
        "all",
        "more-causal",
        "more",
        "keys_only",
        "values_only",
        "neither",
    ],
)
def test_outputs_are_those_of_the_definition(
    rng,
    inputs,
    build_layer,
    weights_of,
    paper_attention,
    reach,
    causal,
    arguments,
):
    layer = build_layer(
        reach, causal=causal, **{"use_value_relations": True, **arguments}
    )
    mask = rng.random((B, T, T)) < 0.7
    mask[:, range(T), range(T)] = True
    for call in ({}, {"attention_mask": mask}):
        seen = call.get("attention_mask", np.ones((T, T), bool))
        expected, expected_scores = paper_attention(
            weights_of(layer),
            inputs,
            past_rows(reach) if causal else rows(reach),
            np.tril(seen) if causal else seen,
        )
        outputs, scores = layer(inputs, return_attention_scores=True, **call)
        assert_same(outputs, expected)
        assert_same(scores, expected_scores)
    assert_same(layer(inputs, **call), outputs)


@pytest.mark.parametrize(
    "reach, causal",
    [(1, False), (M, False), (M, True), (T + 4, True)],
    ids=["one", "few", "few-causal", "more-causal"],
)
def test_gradients_are_finite_differences_of_the_definition(
    inputs, build_layer, assert_gradients_of_paper, causal, reach
):
    layer = build_layer(reach, causal=causal, use_value_relations=True)
    assert_gradients_of_paper(
        layer,
        layer,
        inputs,
        past_rows(reach) if causal else rows(reach),
        np.tri(T, dtype=bool) if causal else True,
    )


def test_defaults_are_tensor2tensors():
    layer = ra.RelativeGlobalAttention(5, 64, 101)
    layer.build((None, None, D))
    assert layer.value_relation_embeddings is None
    table = np.array(layer.key_relation_embeddings)
    assert table.shape == (5, 201, 64)
    # Normal, standard deviation 1/8, within five standard errors.
    tolerance = 5 / np.sqrt(table.size)
    np.testing.assert_allclose(table.std() * 8, 1, atol=tolerance)
    np.testing.assert_allclose(table.mean() * 8, 0, atol=tolerance)
    assert (table[0] != table[1]).all()
