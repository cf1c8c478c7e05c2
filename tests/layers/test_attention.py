"""The equations of the attention layers, and what follows from them."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from tests.layers.paper import assert_same
from tests.layers.paper import attention
from tests.layers.paper import clipped
from tests.layers.paper import distances
from tests.layers.paper import normal
from tests.layers.paper import weights_of

B, T, D, N, H, K, R = 2, 7, 11, 3, 4, 2, 6

LABELS = np.random.default_rng(7).integers(-1, R, (B, T, T)).astype("int32")
APART = {"share_relations_across_heads": False}
SHARED = {"share_relations_across_heads": True}
BOTH = {"use_value_relations": True}
KEYS = {"use_value_relations": False}
VALUES = {"use_key_relations": False}


def relative(reach=K, **options):
    """A layer, the rows of its tables by edge, and its call's arguments."""
    layer = ra.RelativeSelfAttention(N, H, reach, **options)
    return layer, clipped(T, reach), {}


def of_global(reach=K, **options):
    layer = ra.RelativeGlobalAttention(N, H, reach, **options)
    distance = distances(T)
    rows = np.where(np.abs(distance) < reach, distance + reach - 1, -1)
    # Without rows for the future, which is masked.
    return layer, np.tril(rows) if layer.causal else rows, {}


def of_graph(labels=LABELS, **options):
    layer = ra.RelationAwareSelfAttention(N, H, R, no_relation=-1, **options)
    return layer, labels, {"relations": labels}


CASES = {
    "shared": lambda: relative(use_bias=True),
    "apart": lambda: relative(value_dim=13, **APART),
    "transpose": lambda: relative(
        use_bias=True, implementation="transpose", **APART
    ),
    "keys": lambda: relative(**KEYS),
    "values": lambda: relative(**VALUES, **APART),
    "neither": lambda: relative(**KEYS, **VALUES),
    # One table row for all distances.
    "zero": lambda: relative(0),
    "zero-transpose": lambda: relative(0, implementation="transpose"),
    "global": lambda: of_global(use_bias=True, **BOTH, **SHARED),
    "global-one": lambda: of_global(1, value_dim=5, **BOTH),
    "global-longer": lambda: of_global(T + 4, **BOTH),
    "global-causal": lambda: of_global(causal=True, value_dim=5, **BOTH),
    "global-causal-longer": lambda: of_global(T + 4, causal=True, **BOTH),
    "global-causal-values": lambda: of_global(causal=True, **BOTH, **VALUES),
    "graphs": lambda: of_graph(use_bias=True),
    "graphs-apart": lambda: of_graph(value_dim=7, **APART),
    "graph": lambda: of_graph(LABELS[0]),
    "graph-apart": lambda: of_graph(LABELS[0], **KEYS, **APART),
    "graph-values": lambda: of_graph(**VALUES),
}


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture
def build(randomize):
    """`build(case)`: a layer with random weights, rows, call arguments."""

    def build(case):
        layer, rows, arguments = CASES[case]()
        return randomize(layer, D), rows, arguments

    return build


# === Equations ===


def assert_terms(outputs, terms, expected, allowed=True):
    assert_same(outputs, expected.pop("outputs"))
    for name, wanted in expected.items():
        found = getattr(terms, name)
        if found is None:
            assert not wanted.any()
            continue
        if "logits" in name:
            # What no query attends to may have any logit.
            found, wanted = (np.where(allowed, x, 0) for x in (found, wanted))
        assert_same(*np.broadcast_arrays(found, wanted))


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_scores_are_those_of_the_paper(rng, inputs, build, case):
    layer, rows, arguments = build(case)
    mask = rng.random((B, T, T)) < 0.7
    mask[:, range(T), range(T)] = True
    # A sentence that is padded, and a query that may attend to nothing.
    is_real = np.arange(T) < np.array([T, T - 2])[:, None]
    mask[0, 3] = False
    merged = mask & is_real[:, None]
    causal = {"use_causal_mask": True}
    for given, call, of_terms in (
        (np.ones((B, T, T), bool), {}, {}),
        (
            np.tril(merged),
            {"attention_mask": mask, "inputs_mask": is_real, **causal},
            {"attention_mask": merged, **causal},
        ),
    ):
        allowed = np.tri(T, dtype=bool) & given if layer.causal else given
        expected = attention(weights_of(layer), inputs, rows, allowed)
        assert_same(layer(inputs, **arguments, **call), expected["outputs"])
        outputs, scores = layer(
            inputs, return_attention_scores=True, **arguments, **call
        )
        assert_same(outputs, expected["outputs"])
        assert_same(scores, expected["scores"])
        found = layer.attention_terms(inputs, **arguments, **of_terms)
        assert_terms(*found, expected, allowed[:, None])


def test_cross_attention_has_content_alone(rng, inputs, randomize):
    layer = ra.CrossAttention(N, H, value_dim=5, use_bias=True)
    source = normal(rng, B, 5, D)
    is_real = np.arange(5) < np.array([5, 2])[:, None]
    layer.build(inputs.shape, source.shape)
    expected = attention(
        weights_of(randomize(layer)),
        inputs,
        mask=is_real[:, None],
        source=source,
    )
    outputs, scores = layer(
        inputs, source, padding_mask=is_real, return_attention_scores=True
    )
    assert_same(outputs, expected["outputs"])
    assert_same(scores, expected["scores"])
    assert_terms(*layer.attention_terms(inputs, source, is_real), expected)


@pytest.mark.parametrize(
    "case", ["shared", "global-one", "global-causal", "graphs", "graph-apart"]
)
def test_gradients_are_finite_differences_of_the_paper(
    rng, inputs, build, gradients, case
):
    layer, rows, arguments = build(case)
    mask = np.tri(T, dtype=bool) if layer.causal else True
    upstream = normal(rng, *inputs.shape)
    of_inputs, *of_weights = gradients(
        lambda x: ops.sum(ops.multiply(layer(x, **arguments), upstream)),
        [inputs],
        layer.trainable_weights,
    )
    weights = weights_of(layer)
    results = dict(zip(weights, of_weights, strict=True))
    step = 1e-5
    for name, result in {"inputs": of_inputs, **results}.items():
        direction = rng.normal(size=result.shape)
        losses = []
        for moved in (step * direction, -step * direction):
            found = attention(
                {**weights, name: weights.get(name, 0) + moved},
                inputs + (moved if name == "inputs" else 0),
                rows,
                mask,
            )
            losses.append((found["outputs"] * upstream).sum())
        np.testing.assert_allclose(
            (result * direction).sum(),
            (losses[0] - losses[1]) / (2 * step),
            rtol=1e-4,
            atol=1e-4,
            err_msg=name,
        )


# === tensor2tensor and Keras ===


@pytest.mark.parametrize("case", range(10))
def test_outputs_and_gradients_are_tensor2tensors(golden, gradients, case):
    info, data = golden("A4_multihead_attention").case(case)
    num_heads = info["num_heads"]
    head_dim = info["total_key_depth"] // num_heads
    options = {
        "value_dim": info["total_value_depth"] // num_heads,
        "output_shape": info["output_depth"],
    }
    is_relative = info["attention_type"] == "dot_product_relative"
    inputs = [data["query_antecedent"]]
    inputs_gradients = [data["grad_query_antecedent"]]
    arguments = {}
    if case == 8:  # The one with a memory.
        inputs.append(data["memory_antecedent"])
        inputs_gradients.append(data["grad_memory_antecedent"])
        layer = ra.CrossAttention(num_heads, head_dim, **options)
        arguments["padding_mask"] = data["bias"][:, 0, 0] > -1
    else:
        layer = ra.RelativeSelfAttention(
            num_heads,
            head_dim,
            info["max_relative_position"] or 0,
            use_key_relations=is_relative,
            use_value_relations=is_relative,
            **options,
        )
        arguments["use_causal_mask"] = info["bias"] == "causal"
        if info["bias"] == "padding":
            arguments["attention_mask"] = data["bias"][:, 0] > -1
    layer.build(*(array.shape for array in inputs))
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

    outputs, scores = layer(*inputs, return_attention_scores=True, **arguments)
    assert_same(outputs, data["output"])
    assert_same(scores, data["weights"])

    results = gradients(
        lambda *inputs: ops.sum(
            ops.multiply(layer(*inputs, **arguments), data["grad_projection"])
        ),
        inputs,
        list(weights.values()),
    )
    expected = inputs_gradients + [
        data[f"grads/multihead_attention/{name}"] for name in weights
    ]
    for result, wanted in zip(results, expected, strict=True):
        assert_same(result, wanted.reshape(result.shape))


# Half of them with a causal mask; tables shared or not, values with relations
# or without; relations beyond the table, and a table beyond the sentence.
GLOBAL_CASES = [*range(10), 11, *range(16, 20), *range(23, 34), 35, 38]
GLOBAL_CASES += range(40, 44)


@pytest.mark.parametrize(
    "case",
    [
        # Each way once, the lengths and reaches in turns; the rest are large.
        case
        if case in (0, 8, 9, 18, 23, 28, 33, 38, 43)
        else pytest.param(case, marks=pytest.mark.large)
        for case in GLOBAL_CASES
    ],
)
def test_global_outputs_and_scores_are_tensor2tensors(golden, case):
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


def test_layer_with_zero_tables_is_multi_head_attention(inputs, randomize):
    arguments = {
        "num_heads": N,
        "key_dim": H,
        "value_dim": 13,
        "dropout": 0.25,
        "use_bias": True,
        "output_shape": 17,
        "kernel_regularizer": "l2",
        "bias_regularizer": "l1",
        "kernel_constraint": "non_neg",
        "bias_constraint": "max_norm",
        "seed": 3,
        "name": "attention",
    }
    layer = ra.RelativeSelfAttention(max_relative_position=K, **arguments)
    randomize(layer, D)
    for kind in ("key", "value"):
        table = getattr(layer, f"{kind}_relation_embeddings")
        table.assign(np.zeros(table.shape))
    keras_layer = keras.layers.MultiHeadAttention(**arguments)
    keras_layer.build(inputs.shape, inputs.shape)
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        ours, keras_own = getattr(layer, name), getattr(keras_layer, name)
        keras_own.set_weights(ours.get_weights())
        for weight, other in zip(ours.weights, keras_own.weights, strict=True):
            assert type(weight.constraint) is type(other.constraint)
    is_real = np.arange(T) < np.array([4, T])[:, None]
    call = {"attention_mask": is_real[:, None], "use_causal_mask": True}
    call |= {"training": False, "return_attention_scores": True}
    results = layer(inputs, **call)
    expected = keras_layer(inputs, inputs, **call)
    for result, wanted in zip(results, expected, strict=True):
        assert_same(result, wanted)
    assert_same(sum(layer.losses), sum(keras_layer.losses))


# === Dropout ===


@pytest.mark.parametrize("implementation", ["transpose", "auto"])
def test_dropout_is_active_only_in_training(inputs, randomize, implementation):
    layer = ra.RelativeSelfAttention(
        N, H, K, dropout=0.5, seed=7, implementation=implementation
    )
    found = attention(weights_of(randomize(layer, D)), inputs, clipped(T, K))
    expected = found["outputs"]
    assert_same(layer(inputs), expected)
    assert_same(layer(inputs, training=False), expected)
    first, second = (np.array(layer(inputs, training=True)) for _ in range(2))
    assert np.abs(first - expected).max() > 1e-2
    assert np.abs(second - first).max() > 1e-2
    # The scores are those before dropout.
    _, scores = layer(inputs, training=True, return_attention_scores=True)
    assert_same(scores, found["scores"])


@pytest.mark.parametrize("case", ["shared", "graph", "global-causal"])
def test_one_dropout_serves_values_and_their_relations(inputs, build, case):
    layer, _, arguments = build(case)
    config = {**layer.get_config(), "dropout": 0.5, "seed": 7}

    def outputs(*kept, training=True):
        """Those of a new layer, the same draw; outputs are linear in both."""
        clone = type(layer).from_config(config)
        clone.build((None, None, D))
        clone.set_weights(layer.get_weights())
        for dense in (clone.value_dense, clone.output_dense):
            if clone.use_bias:
                dense.bias.assign(np.zeros(dense.bias.shape))
        for name, weight in (
            ("values", clone.value_dense.kernel),
            ("relations", clone.value_relation_embeddings),
        ):
            if name not in kept:
                weight.assign(np.zeros(weight.shape))
        return np.array(clone(inputs, training=training, **arguments))

    for kept in ("values", "relations"):
        difference = outputs(kept) - outputs(kept, training=False)
        assert np.abs(difference).max() > 1e-3, kept
    assert_same(
        outputs("values") + outputs("relations"), outputs("values", "relations")
    )


# === Weights ===


@pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
def test_weights_have_the_documented_names_and_shapes(share):
    layer = ra.RelativeSelfAttention(
        N,
        H,
        K,
        value_dim=13,
        share_relations_across_heads=share,
        use_bias=True,
        name="attention",
    )
    layer.build((None, None, D))
    tables = (*(() if share else (N,)), 2 * K + 1)
    # Keras puts the layer's own name before each path once.
    assert {
        weight.path.split("attention/")[-1]: tuple(weight.shape)
        for weight in layer.trainable_weights
    } == {
        "query/kernel": (D, N, H),
        "query/bias": (N, H),
        "key/kernel": (D, N, H),
        "key/bias": (N, H),
        "value/kernel": (D, N, 13),
        "value/bias": (N, 13),
        "output/kernel": (N, 13, D),
        "output/bias": (D,),
        "key_relation_embeddings": (*tables, H),
        "value_relation_embeddings": (*tables, 13),
    }


def test_each_head_has_a_table_that_starts_as_a_glorot_matrix():
    # Shared tables and kernels are compared with tensor2tensor's.
    heads, dim, rows = 7, 31, 2 * 29 + 1
    layer = ra.RelativeSelfAttention(
        heads, dim, 29, share_relations_across_heads=False
    )
    layer.build((None, None, D))
    for kind in ("key", "value"):
        table = np.array(getattr(layer, f"{kind}_relation_embeddings"))
        limit = np.sqrt(6 / (rows + dim))
        assert np.abs(table).max() <= limit
        # Five standard errors of a uniform distribution.
        error = limit / np.sqrt(3 * table.size)
        assert abs(table.std() - limit / np.sqrt(3)) < 5 * 0.45 * error
        assert abs(table.mean()) < 5 * error
    # With a seed, too, no two heads begin with the same numbers.
    layer = ra.RelativeSelfAttention(
        N,
        H,
        K,
        share_relations_across_heads=False,
        relation_initializer=keras.initializers.GlorotUniform(seed=3),
    )
    layer.build((None, None, D))
    for head, table in enumerate(np.array(layer.key_relation_embeddings)):
        expected = keras.initializers.GlorotUniform(seed=3 + head)(table.shape)
        np.testing.assert_array_equal(table, expected)


@keras.saving.register_keras_serializable("tests")
def ones(shape, dtype=None):
    return keras.ops.ones(shape, dtype)


def test_initializer_may_be_a_function_or_draw_from_a_generator(inputs):
    names = "kernel_initializer", "bias_initializer", "relation_initializer"
    layer = ra.RelativeSelfAttention(
        N, H, K, use_bias=True, **dict.fromkeys(names, ones)
    )
    outputs = layer(inputs)
    assert all((np.array(weight) == 1).all() for weight in layer.weights)
    again = ra.RelativeSelfAttention.from_config(layer.get_config())
    np.testing.assert_array_equal(again(inputs), outputs)
    # Every draw of a generator of seeds is another.
    normal = keras.initializers.RandomNormal(seed=keras.random.SeedGenerator(3))
    layer = ra.RelativeSelfAttention(
        N,
        H,
        K,
        share_relations_across_heads=False,
        kernel_initializer=normal,
        relation_initializer=normal,
    )
    layer.build((None, None, N * H))
    drawn = [
        *(layer.query_dense.kernel, layer.key_dense.kernel),
        *np.array(layer.key_relation_embeddings),
        *np.array(layer.value_relation_embeddings),
    ]
    first = {np.array(array).ravel()[0] for array in drawn}
    assert len(first) == len(drawn)


def test_defaults_of_global_attention_are_tensor2tensors():
    layer = ra.RelativeGlobalAttention(5, 64, 101)
    layer.build((None, None, D))
    assert layer.value_relation_embeddings is None
    table = np.array(layer.key_relation_embeddings)
    assert table.shape == (5, 201, 64)
    # Normal, standard deviation 1/8, within five standard errors.
    tolerance = 5 / np.sqrt(table.size)
    np.testing.assert_allclose(table.std() * 8, 1, atol=tolerance)
    np.testing.assert_allclose(table.mean() * 8, 0, atol=tolerance)


def test_graph_of_an_older_file_may_name_a_way_that_was_not_used(inputs):
    with pytest.raises(NotImplementedError, match="step by step"):
        ra.RelationAwareSelfAttention(N, H, R).start_cache(1)
    config = ra.RelationAwareSelfAttention(N, H, R).get_config()
    layer = ra.RelationAwareSelfAttention.from_config(
        {**config, "implementation": "recompute"}
    )
    assert layer.implementation == "auto"


# === Labels that are refused ===


def test_relations_of_another_shape_or_type_are_refused(inputs, build):
    layer, _, _ = build("graph")
    for shape in ((T,), (T, T + 1), (1, T, T)):
        with pytest.raises(ValueError) as error:
            layer(inputs, np.zeros(shape, "int32"))
        assert (
            f"`relations` must have shape {(T, T)}, the same graph for all, "
            f"or {(B, T, T)}. Received shape: {shape}."
        ) in str(error.value)
    for given in (
        (inputs, np.full((T, T), 1.7, "float32")),
        (keras.Input((T, D)), keras.Input((T, T))),
    ):
        with pytest.raises(ValueError, match="`relations` must be integers"):
            layer(*given)


@pytest.mark.parametrize("no_relation, label", [(None, -1), (-1, -2), (2, R)])
def test_label_out_of_range_is_refused(inputs, no_relation, label):
    layer = ra.RelationAwareSelfAttention(N, H, R, no_relation=no_relation)
    relations = np.maximum(LABELS, 0)
    relations[1, 2, 3] = label
    with pytest.raises(ValueError) as error:
        layer(inputs, relations)
    assert (
        f"`relations` must hold labels from 0 to {R - 1}, or `no_relation` "
        f"({no_relation}). Received: {label}. Raise `num_relations`, or name "
        "a `no_relation`."
    ) in str(error.value)
