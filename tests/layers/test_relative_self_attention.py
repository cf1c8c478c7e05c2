"""The equations of `RelativeSelfAttention`, and what follows from them."""

import itertools
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import RelativeSelfAttention
from relative_attention.positions.relative import PerHeadInitializer

B, T, D, N, H, K = 2, 7, 11, 3, 5, 2


# Blocks of queries, and tensor2tensor's way; scores are always made in the
# second, so what is to be seen of the first is seen in outputs alone.
IMPLEMENTATIONS = pytest.mark.parametrize(
    "implementation", ["transpose", "blocks"]
)


HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture
def build_layer(randomize):
    def build(max_relative_position=K, hidden_dim=D, **arguments):
        layer = RelativeSelfAttention(N, H, max_relative_position, **arguments)
        layer.build((None, None, hidden_dim))
        return randomize(layer)

    return build


def clipped(length, max_relative_position=K):
    """Relative positions of all pairs of tokens."""
    distance = np.arange(length) - np.arange(length)[:, None]
    return (
        np.clip(distance, -max_relative_position, max_relative_position)
        + max_relative_position
    )


def copy_weights(source, target):
    """Equal projections, in a layer of another kind or other tables."""
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(target, name).set_weights(getattr(source, name).get_weights())


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@IMPLEMENTATIONS
def test_two_tokens_by_hand(implementation):
    # One head of one number: q = k = v = x, and the tables say how far the
    # key is: -1, 0 or 1 token.
    layer = RelativeSelfAttention(1, 1, 1, implementation=implementation)
    layer.build((None, None, 1))
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense):
        dense.kernel.assign([[[1.0]]])
    layer.output_dense.kernel.assign([[[1.0]]])
    layer.key_relation_embeddings.assign([[0.5], [0.0], [-1.0]])
    layer.value_relation_embeddings.assign([[10.0], [20.0], [30.0]])
    outputs = layer(np.array([[[1.0], [2.0]]], "float32"))
    # Token 0: logits 1 * (1 + 0) and 1 * (2 - 1), so half of each value.
    # Token 1: logits 2 * (1 + 0.5) and 2 * (2 + 0), 3 and 4.
    share = 1 / (1 + np.exp(-1))
    expected = [
        0.5 * (1 + 20) + 0.5 * (2 + 30),
        (1 - share) * (1 + 10) + share * (2 + 20),
    ]
    np.testing.assert_allclose(outputs[0, :, 0], expected, rtol=1e-6)


@IMPLEMENTATIONS
@pytest.mark.parametrize(
    "is_masked, arguments",
    [
        (False, {}),
        (True, {"use_bias": True}),
        (True, {"share_relations_across_heads": False, "value_dim": 13}),
        (True, {"use_value_relations": False, "use_bias": True}),
        (
            False,
            {"use_key_relations": False, "share_relations_across_heads": False},
        ),
        (True, {"use_key_relations": False, "use_value_relations": False}),
    ],
    ids=["both", "masked", "apart", "keys_only", "values_only", "neither"],
)
def test_outputs_are_those_of_the_paper(
    rng,
    inputs,
    build_layer,
    paper_attention,
    weights_of,
    implementation,
    is_masked,
    arguments,
):
    layer = build_layer(implementation=implementation, **arguments)
    mask, call = True, {}
    if is_masked:
        mask = rng.random((B, T, T)) < 0.7
        mask[:, range(T), range(T)] = True
        call = {"attention_mask": mask, "use_causal_mask": True}
        mask = np.tril(mask)
    expected, expected_scores = paper_attention(
        weights_of(layer), inputs, clipped(T), mask
    )
    assert_same(layer(inputs, **call), expected)
    if implementation == "transpose":
        outputs, scores = layer(inputs, return_attention_scores=True, **call)
        assert_same(outputs, expected)
        assert_same(scores, expected_scores)


@pytest.mark.parametrize("case", [*range(8), 9])
def test_outputs_and_gradients_are_tensor2tensors(golden, gradients, case):
    # Case 8 has a memory; 9 has values and outputs of other widths.
    golden = golden("A4_multihead_attention")
    info = golden.info["cases"][case]
    data = {
        key.removeprefix(f"case{case}/"): array
        for key, array in golden.items()
        if key.startswith(f"case{case}/")
    }
    is_relative = info["attention_type"] == "dot_product_relative"
    num_heads = info["num_heads"]
    head_dim = info["total_key_depth"] // num_heads
    layer = RelativeSelfAttention(
        num_heads,
        head_dim,
        info["max_relative_position"] or 0,
        value_dim=info["total_value_depth"] // num_heads,
        use_key_relations=is_relative,
        use_value_relations=is_relative,
        output_shape=info["output_depth"],
    )
    inputs = data["query_antecedent"]
    layer.build(inputs.shape)
    tables = "dot_product_attention_relative/relative_positions"
    weights = {
        "q/kernel": layer.query_dense.kernel,
        "k/kernel": layer.key_dense.kernel,
        "v/kernel": layer.value_dense.kernel,
        "output_transform/kernel": layer.output_dense.kernel,
    }
    if is_relative:
        weights |= {
            f"{tables}_keys/embeddings": layer.key_relation_embeddings,
            f"{tables}_values/embeddings": layer.value_relation_embeddings,
        }
    assert len(layer.trainable_weights) == len(info["variables"])
    for name, weight in weights.items():
        values = data[f"vars/multihead_attention/{name}"]
        weight.assign(values.reshape(weight.shape))
    arguments = {"use_causal_mask": info["bias"] == "causal"}
    if info["bias"] == "padding":
        arguments["attention_mask"] = data["bias"][:, 0] > -1

    outputs, scores = layer(inputs, return_attention_scores=True, **arguments)
    assert_same(outputs, data["output"])
    assert_same(scores, data["weights"])

    inputs_gradient, *results = gradients(
        lambda inputs: ops.sum(
            ops.multiply(layer(inputs, **arguments), data["grad_projection"])
        ),
        [inputs],
        list(weights.values()),
    )
    assert_same(inputs_gradient, data["grad_query_antecedent"])
    for name, result in zip(weights, results):
        expected = data[f"grads/multihead_attention/{name}"]
        assert_same(result, expected.reshape(result.shape))


@pytest.mark.parametrize(
    "mask, arguments",
    [
        ("none", {"use_bias": False}),
        ("causal", {"use_bias": True}),
        ("padding", {"use_bias": False, "value_dim": 13, "output_shape": 17}),
        ("both", {"use_bias": True, "value_dim": 13, "output_shape": 17}),
    ],
    ids=["plain", "causal", "padding", "both"],
)
def test_layer_with_zero_tables_is_multi_head_attention(
    inputs, build_layer, mask, arguments
):
    layer = build_layer(**arguments)
    for table in (
        layer.key_relation_embeddings,
        layer.value_relation_embeddings,
    ):
        table.assign(np.zeros(table.shape))
    keras_layer = keras.layers.MultiHeadAttention(N, H, **arguments)
    keras_layer.build(inputs.shape, inputs.shape)
    copy_weights(layer, keras_layer)
    call = {"use_causal_mask": mask in ("causal", "both")}
    if mask in ("padding", "both"):
        padding_mask = np.arange(T) < np.array([4, T])[:, None]
        call["attention_mask"] = padding_mask[:, None, :]
    expected, expected_scores = keras_layer(
        inputs, inputs, return_attention_scores=True, **call
    )
    outputs, scores = layer(inputs, return_attention_scores=True, **call)
    assert_same(outputs, expected)
    assert_same(scores, expected_scores)


def test_layer_takes_the_arguments_of_multi_head_attention(inputs):
    arguments = {
        "num_heads": N,
        "key_dim": H,
        "value_dim": 13,
        "dropout": 0.25,
        "use_bias": True,
        "output_shape": 17,
        "kernel_initializer": keras.initializers.Constant(0.25),
        "bias_initializer": keras.initializers.Constant(0.5),
        "kernel_regularizer": "l2",
        "bias_regularizer": "l1",
        "kernel_constraint": "non_neg",
        "bias_constraint": "max_norm",
        "seed": 3,
        "name": "attention",
    }
    layer = RelativeSelfAttention(
        max_relative_position=K, relation_initializer="zeros", **arguments
    )
    keras_layer = keras.layers.MultiHeadAttention(**arguments)
    call_arguments = {
        "attention_mask": np.tri(T, dtype=bool)[None],
        "use_causal_mask": True,
        "training": False,
    }
    assert_same(
        layer(inputs, **call_arguments),
        keras_layer(inputs, inputs, **call_arguments),
    )
    assert_same(sum(layer.losses), sum(keras_layer.losses))
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        for weight, other in zip(
            getattr(layer, name).weights,
            getattr(keras_layer, name).weights,
            strict=True,
        ):
            assert type(weight.constraint) is type(other.constraint)


@pytest.mark.parametrize(
    "share, implementation",
    [(True, "blocks"), (False, "transpose")],
    ids=["shared-blocks", "apart-transpose"],
)
def test_layer_that_clips_at_zero_is_permutation_equivariant(
    rng, inputs, build_layer, share, implementation
):
    arguments = {
        "share_relations_across_heads": share,
        "implementation": implementation,
    }
    order = rng.permutation(T)
    layer = build_layer(0, **arguments)
    assert_same(layer(inputs[:, order]), np.array(layer(inputs))[:, order])
    # Clipped at one, order matters.
    layer = build_layer(1, **arguments)
    shuffled, outputs = map(np.array, (layer(inputs[:, order]), layer(inputs)))
    difference = shuffled - outputs[:, order]
    assert np.abs(difference).max() > 1e-2


@IMPLEMENTATIONS
def test_dropout_is_active_only_in_training(
    inputs, build_layer, paper_attention, weights_of, implementation
):
    layer = build_layer(dropout=0.5, seed=7, implementation=implementation)
    expected, expected_scores = paper_attention(
        weights_of(layer), inputs, clipped(T)
    )
    assert_same(layer(inputs), expected)
    assert_same(layer(inputs, training=False), expected)
    first, second = (np.array(layer(inputs, training=True)) for _ in range(2))
    assert np.abs(first - expected).max() > 1e-2
    assert np.abs(second - first).max() > 1e-2
    # The scores are those before dropout.
    _, scores = layer(inputs, training=True, return_attention_scores=True)
    assert_same(scores, expected_scores)


@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
@HEADS
def test_weights_have_the_documented_names_and_shapes(share, use_bias):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        value_dim=13,
        share_relations_across_heads=share,
        use_bias=use_bias,
        name="attention",
    )
    layer.build((None, None, D))
    heads = () if share else (N,)
    expected = {
        "attention/query/kernel": (D, N, H),
        "attention/key/kernel": (D, N, H),
        "attention/value/kernel": (D, N, 13),
        "attention/output/kernel": (N, 13, D),
        "attention/key_relation_embeddings": (*heads, 2 * K + 1, H),
        "attention/value_relation_embeddings": (*heads, 2 * K + 1, 13),
    }
    if use_bias:
        expected |= {
            "attention/query/bias": (N, H),
            "attention/key/bias": (N, H),
            "attention/value/bias": (N, 13),
            "attention/output/bias": (D,),
        }
    # Keras puts the layer's own name before each path once.
    assert {
        weight.path[weight.path.index("attention") :]: tuple(weight.shape)
        for weight in layer.trainable_weights
    } == expected


@HEADS
def test_initial_values_have_the_spread_of_glorot_matrices(share):
    keras.utils.set_random_seed(3)
    heads, dim, width = 7, 31, 211
    layer = RelativeSelfAttention(
        heads, dim, 29, share_relations_across_heads=share
    )
    layer.build((None, None, width))
    kernel_fan = width + heads * dim
    table_fan = 2 * 29 + 1 + dim
    tables = []
    for weight, fan in (
        (layer.query_dense.kernel, kernel_fan),
        (layer.key_dense.kernel, kernel_fan),
        (layer.value_dense.kernel, kernel_fan),
        (layer.output_dense.kernel, kernel_fan),
        (layer.key_relation_embeddings, table_fan),
        (layer.value_relation_embeddings, table_fan),
    ):
        values = np.array(weight)
        tables.append(values)
        limit = np.sqrt(6 / fan)
        assert np.abs(values).max() <= limit
        # Five standard errors of the deviation and of the mean of a uniform
        # distribution.
        np.testing.assert_allclose(
            values.std(), limit / np.sqrt(3), rtol=5 * 0.45 / values.size**0.5
        )
        np.testing.assert_allclose(
            values.mean(), 0, atol=5 * limit / (3 * values.size) ** 0.5
        )
    for first, second in itertools.combinations(tables, 2):
        if first.shape == second.shape:
            assert (first != second).any()
    if not share:
        assert (tables[-1][0] != tables[-1][1]).any()


def test_per_head_initializer_draws_each_table_as_one():
    tables = np.array(
        PerHeadInitializer(keras.initializers.GlorotUniform(seed=3))(
            (5, 7, 11), dtype="float32"
        )
    )
    for head, table in enumerate(tables):
        expected = keras.initializers.GlorotUniform(seed=3 + head)((7, 11))
        np.testing.assert_array_equal(table, expected)


# A process of its own, as its largest resident set is that of its whole life.
TRAIN = """
import keras
import numpy as np
import relative_attention as ra
from tests.peak_memory import peak_memory

inputs = np.random.default_rng(0).normal(size=(1, 8192, 512))
model = keras.Sequential([ra.RelativeSelfAttention(8, 64, 16)])
model.compile(keras.optimizers.Adam(1e-3), "mse", jit_compile=False)
losses = [
    model.train_on_batch(inputs, np.zeros_like(inputs)) for _ in range(2)
]
print("losses", *map(float, losses), "peak", peak_memory())
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or keras.backend.backend() != "tensorflow",
    reason="measures a process of TensorFlow as Linux counts it",
)
def test_layer_trains_on_8192_tokens_in_6_gigabytes():
    shown = subprocess.run(
        [sys.executable, "-c", TRAIN],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first, second, peak = re.search(
        r"losses (\S+) (\S+) peak (\d+)", shown
    ).groups()
    assert float(second) < float(first)
    assert int(peak) < 6e9


@pytest.mark.slow
@pytest.mark.only_on("tensorflow", reason="takes float64")
@pytest.mark.parametrize("length", [1000, 4096])
def test_long_sentence_has_the_numbers_of_tensor2tensor(rng, length):
    inputs, upstream = rng.normal(size=(2, 1, length, 6))
    # Gradients of the tables are sums over all pairs of tokens, in which
    # tensor2tensor's way itself needs float64 to be this exact.
    exact, layer = (
        RelativeSelfAttention(
            2, 4, 16, implementation=implementation, dtype=dtype
        )
        for implementation, dtype in (
            ("transpose", "float64"),
            ("auto", "float32"),
        )
    )
    exact.build(inputs.shape)
    layer.build(inputs.shape)
    layer.set_weights(exact.get_weights())
    results = [
        outputs_and_gradients(x, inputs, upstream) for x in (layer, exact)
    ]
    for result, expected in zip(*results, strict=True):
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(result / scale, expected / scale, atol=1e-5)


def outputs_and_gradients(layer, inputs, upstream):
    import tensorflow as tf

    inputs, upstream = (
        tf.cast(x, layer.compute_dtype) for x in (inputs, upstream)
    )
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, use_causal_mask=True)
    weights = [weight.value for weight in layer.trainable_weights]
    return [outputs, *tape.gradient(outputs, [inputs, *weights], upstream)]
