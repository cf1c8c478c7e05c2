import itertools
import sys

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.layers import RelativeSelfAttention

B, T, D, N, H, K = 2, 7, 11, 3, 5, 2
RELATIONS = pytest.mark.parametrize(
    "use_key_relations, use_value_relations",
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["both", "keys_only", "values_only", "neither"],
)
HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def inputs(rng):
    return normal(rng, B, T, D)


@pytest.fixture(params=["transpose", "blocks"])
def build_layer(rng, request):
    """A layer with weights that are all random, biases and tables too."""

    def build(max_relative_position=K, hidden_dim=D, **arguments):
        arguments = {"implementation": request.param, **arguments}
        layer = RelativeSelfAttention(N, H, max_relative_position, **arguments)
        layer.build((None, None, hidden_dim))
        for weight in layer.trainable_weights:
            weight.assign(normal(rng, *weight.shape) / 2)
        return layer

    return build


def copy_weights(source, target):
    """Equal projections, in a layer of another kind or other tables."""
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(target, name).set_weights(getattr(source, name).get_weights())


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def reference(layer, inputs, mask=None):
    """Eqs. 3 and 4 of the paper in loops, in float64.

    Returns outputs `(B, T, D)` and scores `(B, N, T, T)`.
    """

    def array(weight):
        return np.array(weight, "float64")

    def project(dense, x, head):
        bias = 0 if dense.bias is None else array(dense.bias)[head]
        return x @ array(dense.kernel)[:, head] + bias

    def edge(table, i, j, head):
        if table is None:
            return 0
        limit = layer.max_relative_position
        table = array(table)
        if table.ndim == 3:
            table = table[head]
        return table[max(-limit, min(limit, j - i)) + limit]

    num_sentences, length, _ = inputs.shape
    output_kernel = array(layer.output_dense.kernel)
    outputs = np.zeros_like(inputs, "float64")
    all_scores = np.zeros((num_sentences, layer.num_heads, length, length))
    for b, head, i in np.ndindex(num_sentences, layer.num_heads, length):
        x = inputs[b].astype("float64")
        query = project(layer.query_dense, x[i], head)
        keys, values = [], []
        for j in range(length):
            keys.append(
                project(layer.key_dense, x[j], head)
                + edge(layer.key_relation_embeddings, i, j, head)
            )
            values.append(
                project(layer.value_dense, x[j], head)
                + edge(layer.value_relation_embeddings, i, j, head)
            )
        scores = np.exp(keys @ query / np.sqrt(layer.key_dim))
        if mask is not None:
            scores = scores * mask[b, i]
        scores = scores / scores.sum()
        all_scores[b, head, i] = scores
        outputs[b, i] += scores @ values @ output_kernel[head]
    if layer.output_dense.bias is not None:
        outputs += array(layer.output_dense.bias)
    return outputs, all_scores


# === The equations ===


@HEADS
@RELATIONS
def test_outputs_are_those_of_the_paper(
    inputs, build_layer, share, use_key_relations, use_value_relations
):
    layer = build_layer(
        share_relations_across_heads=share,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
    )
    outputs, scores = layer(inputs, return_attention_scores=True)
    expected_outputs, expected_scores = reference(layer, inputs)
    assert_same(outputs, expected_outputs)
    assert_same(scores, expected_scores)
    assert_same(layer(inputs), outputs)


@pytest.mark.parametrize("value_dim", [H, 13])
@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
@HEADS
def test_outputs_are_those_of_the_paper_with_masks(
    rng, inputs, build_layer, share, use_bias, value_dim
):
    layer = build_layer(
        share_relations_across_heads=share,
        use_bias=use_bias,
        value_dim=value_dim,
    )
    mask = rng.random((B, T, T)) < 0.7
    mask[:, range(T), range(T)] = True
    outputs, scores = layer(
        inputs,
        attention_mask=mask,
        use_causal_mask=True,
        return_attention_scores=True,
    )
    expected_outputs, expected_scores = reference(
        layer, inputs, mask & np.tri(T, dtype=bool)
    )
    assert_same(outputs, expected_outputs)
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


# === Agreement with Keras' own layer ===


@pytest.mark.parametrize("mask", ["none", "causal", "padding", "both"])
@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("value_dim, output_shape", [(H, None), (13, 17)])
@HEADS
def test_layer_with_zero_tables_is_multi_head_attention(
    inputs, build_layer, share, value_dim, output_shape, use_bias, mask
):
    layer = build_layer(
        share_relations_across_heads=share,
        value_dim=value_dim,
        output_shape=output_shape,
        use_bias=use_bias,
    )
    for table in (
        layer.key_relation_embeddings,
        layer.value_relation_embeddings,
    ):
        table.assign(np.zeros(table.shape))
    keras_layer = keras.layers.MultiHeadAttention(
        N,
        H,
        value_dim=value_dim,
        output_shape=output_shape,
        use_bias=use_bias,
    )
    keras_layer.build(inputs.shape, inputs.shape)
    copy_weights(layer, keras_layer)
    arguments = {"use_causal_mask": mask in ("causal", "both")}
    if mask in ("padding", "both"):
        lengths = np.array([4, T])
        padding_mask = np.arange(T) < lengths[:, None]
        arguments["attention_mask"] = padding_mask[:, None, :]
    results = layer(inputs, return_attention_scores=True, **arguments)
    expected = keras_layer(
        inputs, inputs, return_attention_scores=True, **arguments
    )
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


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


# === Properties of relative positions ===


@HEADS
def test_layer_with_limit_zero_is_permutation_equivariant(
    rng, inputs, build_layer, share
):
    order = rng.permutation(T)
    layer = build_layer(0, share_relations_across_heads=share)
    assert_same(layer(inputs[:, order]), np.array(layer(inputs))[:, order])
    # With a limit of one, order matters.
    layer = build_layer(1, share_relations_across_heads=share)
    shuffled, outputs = map(np.array, (layer(inputs[:, order]), layer(inputs)))
    difference = shuffled - outputs[:, order]
    assert np.abs(difference).max() > 1e-2


@HEADS
def test_limit_past_the_longest_distance_changes_nothing(
    inputs, build_layer, share
):
    layer = build_layer(T - 1, share_relations_across_heads=share)
    wider = build_layer(T + 2, share_relations_across_heads=share)
    narrower = build_layer(T - 2, share_relations_across_heads=share)
    for other, margin in ((wider, 3), (narrower, -1)):
        copy_weights(layer, other)
        for name in ("key_relation_embeddings", "value_relation_embeddings"):
            table = np.array(getattr(layer, name))
            rows = np.array(getattr(other, name))
            if margin > 0:
                rows[..., margin:-margin, :] = table
            else:
                rows[:] = table[..., -margin:margin, :]
            getattr(other, name).assign(rows)
    np.testing.assert_array_equal(wider(inputs), layer(inputs))
    assert np.abs(narrower(inputs) - layer(inputs)).max() > 1e-3


def test_left_padding_shifts_outputs_and_changes_nothing_else(
    rng, inputs, build_layer
):
    layer = build_layer()
    padded = np.concatenate([normal(rng, B, 3, D), inputs], axis=1)
    mask = (np.arange(T + 3) >= 3)[None, None, :]
    assert_same(layer(padded, attention_mask=mask)[:, 3:], layer(inputs))


# === Masks ===


def test_causal_mask_keeps_the_future_out(rng, inputs, build_layer):
    layer = build_layer()
    outputs = np.array(layer(inputs, use_causal_mask=True))
    for position in range(1, T):
        changed = inputs.copy()
        changed[:, position:] = normal(rng, B, T - position, D)
        results = np.array(layer(changed, use_causal_mask=True))
        assert_same(results[:, :position], outputs[:, :position])
        assert (results[:, position:] != outputs[:, position:]).any()


@pytest.mark.parametrize("with_attention_mask", [False, True])
def test_keras_padding_mask_hides_keys_and_is_passed_on(
    rng, inputs, build_layer, with_attention_mask
):
    layer = build_layer()
    lengths = np.array([4, T])
    padding_mask = np.arange(T) < lengths[:, None]
    inputs = inputs * padding_mask[..., None]
    symbol = keras.Input((T, D))
    hidden = keras.layers.Masking()(symbol)
    mask = np.ones((1, T, T), bool)
    mask[0, 1, 2] = False
    arguments = {}
    if with_attention_mask:
        # A tensor more among the arguments changes how Keras names the mask.
        arguments["attention_mask"] = ops.array(mask)
    hidden = layer(hidden, **arguments)
    model = keras.Model(
        symbol, [hidden, keras.layers.GlobalAveragePooling1D()(hidden)]
    )
    outputs, means = model(inputs)
    combined = padding_mask[:, None, :] & (
        mask if with_attention_mask else True
    )
    expected, _ = reference(layer, inputs, np.broadcast_to(combined, (B, T, T)))
    assert_same(outputs, expected)
    expected_means = [
        rows[:length].mean(0) for rows, length in zip(expected, lengths)
    ]
    assert_same(means, expected_means)


def test_padded_token_changes_no_output(rng, inputs, build_layer):
    layer = build_layer()
    padding_mask = np.ones((B, T), bool)
    padding_mask[0, 4:] = False
    padding_mask[1, 2] = False
    changed = np.where(
        padding_mask[..., None], inputs, 100 * normal(rng, B, T, D)
    )
    results, expected = (
        np.array(layer(x, attention_mask=padding_mask[:, None, :]))
        for x in (changed, inputs)
    )
    assert_same(results[padding_mask], expected[padding_mask])


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_fully_masked_query_gets_zeros_before_the_output_projection(
    inputs, build_layer, dtype, gradients
):
    layer = build_layer(use_bias=True, dtype=dtype)
    mask = np.ones((B, T, T), bool)
    mask[0, 3] = False
    outputs, scores = (
        np.array(ops.cast(result, "float32"))
        for result in layer(
            inputs, attention_mask=mask, return_attention_scores=True
        )
    )
    assert not scores[0, :, 3].any()
    np.testing.assert_allclose(
        outputs[0, 3], layer.output_dense.bias, rtol=1e-3
    )
    assert np.isfinite(outputs).all()
    for gradient in gradients(
        lambda inputs: ops.sum(
            ops.cast(layer(inputs, attention_mask=mask), "float32")
        ),
        [inputs],
        layer.trainable_weights,
    ):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    "shape", [(B, T, T), (1, T, T), (B, 1, T), (B, T, 1), (T, T), (1, T), (T,)]
)
def test_attention_mask_broadcasts(rng, inputs, build_layer, shape):
    layer = build_layer()
    mask = rng.random(shape) < 0.6
    if shape[-1] == T:
        mask[..., 0] = True
    mask[:1] = True
    # A row or a column of the mask for each sentence, or for all of them.
    wide = np.broadcast_to(mask, (B, T, T))
    assert_same(
        layer(inputs, attention_mask=mask), layer(inputs, attention_mask=wide)
    )


@pytest.mark.parametrize("shape", [(B, T), (B, T - 1, T), (3, T, T)], ids=str)
def test_attention_mask_that_does_not_broadcast_is_refused(
    inputs, build_layer, shape
):
    layer = build_layer()
    with pytest.raises(ValueError) as error:
        layer(inputs, attention_mask=np.ones(shape, bool))
    assert (
        f"`attention_mask` must broadcast to {(B, T, T)}. Received shape: "
        f"{shape}. To hide padded keys, pass `padding_mask[:, None, :]`."
    ) in str(error.value)


# === Cached decoding ===


@HEADS
@RELATIONS
def test_decode_steps_are_one_causal_pass(
    inputs, build_layer, share, use_key_relations, use_value_relations
):
    layer = build_layer(
        share_relations_across_heads=share,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
        value_dim=13,
    )
    expected = np.array(layer(inputs, use_causal_mask=True))
    cache = layer.start_cache(B)
    for position in range(T):
        outputs, cache = layer.decode_step(
            inputs[:, position : position + 1], cache, position
        )
        assert_same(outputs, expected[:, position : position + 1])
    assert cache.recent_key.shape == (B, N, T, H)
    assert cache.recent_value.shape == (B, N, T, 13)


@pytest.mark.parametrize("distance", [0, 1, T - 1, T + 3])
def test_decode_steps_clip_wherever_the_pass_does(
    inputs, build_layer, distance
):
    layer = build_layer(max_relative_position=distance)
    expected = np.array(layer(inputs, use_causal_mask=True))
    cache = layer.start_cache(B)
    for position in range(T):
        outputs, cache = layer.decode_step(
            inputs[:, position : position + 1], cache, position
        )
        assert_same(outputs[:, 0], expected[:, position])


@HEADS
@RELATIONS
def test_hypotheses_attend_to_their_ancestors(
    rng, build_layer, share, use_key_relations, use_value_relations
):
    layer = build_layer(
        share_relations_across_heads=share,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
        value_dim=13,
    )
    num_places = 4
    # What each place of each sentence holds at each position, and which place
    # of the position before it continues.
    inputs = normal(rng, B, num_places, T, D)
    parents = rng.integers(0, num_places, size=(B, num_places, T))
    cache = layer.start_cache(B)
    ancestors = np.zeros((B, num_places, 0), int)
    for position in range(T):
        rows = parents[:, :, position, None]
        ancestors = np.take_along_axis(ancestors, rows, axis=1)
        own = np.broadcast_to(np.arange(num_places)[:, None], rows.shape)
        ancestors = np.concatenate([ancestors, own], axis=2)
        outputs, cache = layer.decode_step(
            inputs[:, :, position],
            cache,
            position,
            ancestors.astype("int32"),
        )
        for sentence, place in np.ndindex(B, num_places):
            history = inputs[
                sentence, ancestors[sentence, place], range(position + 1)
            ]
            expected = layer(history[None], use_causal_mask=True)
            assert_same(outputs[sentence, place], np.array(expected)[0, -1])
        if position % 2:
            # When it is merged makes no difference.
            cache = layer.merge_cache(cache)
            assert cache.key.shape == (B, N, num_places * (position + 1), H)
            assert cache.recent_value.shape == (B, N, 0, 13)


# === The constructor and the weights ===


@pytest.mark.parametrize(
    "argument, value, allowed",
    [
        ("num_heads", 0, "a positive int"),
        ("num_heads", 2.0, "a positive int"),
        ("key_dim", -1, "a positive int"),
        ("key_dim", True, "a positive int"),
        ("value_dim", 0, "a positive int"),
        ("output_shape", 0, "a positive int"),
        ("output_shape", (17,), "a positive int"),
        (
            "max_relative_position",
            -4,
            "a non-negative int (tokens on either side)",
        ),
        (
            "max_relative_position",
            1.5,
            "a non-negative int (tokens on either side)",
        ),
        ("dropout", 1.0, "a rate in [0, 1)"),
        ("dropout", -0.1, "a rate in [0, 1)"),
        ("implementation", "fast", "one of ('auto', 'transpose', 'blocks')"),
    ],
)
def test_wrong_argument_is_named_with_what_is_allowed(argument, value, allowed):
    arguments = {"num_heads": N, "key_dim": H, "max_relative_position": K}
    with pytest.raises(ValueError) as error:
        RelativeSelfAttention(**{**arguments, argument: value})
    assert str(error.value) == (
        f"`{argument}` must be {allowed}. Received: {argument}={value!r}."
    )


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
    weights = {w.path: tuple(w.shape) for w in layer.trainable_weights}
    # Keras puts the layer's own name before each path once.
    assert {
        path[path.index("attention") :]: shape
        for path, shape in weights.items()
    } == expected
    assert tuple(layer.query_dense.kernel.shape) == (D, N, H)
    assert tuple(layer.output_dense.kernel.shape) == (N, 13, D)


@RELATIONS
def test_tables_exist_only_where_they_are_used(
    use_key_relations, use_value_relations
):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        use_key_relations=use_key_relations,
        use_value_relations=use_value_relations,
    )
    layer.build((None, None, D))
    assert (layer.key_relation_embeddings is not None) == use_key_relations
    assert (layer.value_relation_embeddings is not None) == use_value_relations
    assert len(layer.weights) == 4 + use_key_relations + use_value_relations


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


@HEADS
def test_seeded_initializer_draws_each_head_and_layer_alike(share):
    def table():
        layer = RelativeSelfAttention(
            N,
            H,
            K,
            share_relations_across_heads=share,
            relation_initializer=keras.initializers.GlorotUniform(seed=5),
        )
        layer.build((None, None, D))
        return np.array(layer.key_relation_embeddings)

    np.testing.assert_array_equal(table(), table())
    if not share:
        assert (table()[0] != table()[1]).any()


@pytest.mark.parametrize("kind", ["kernel", "bias", "relation"])
def test_regularizer_and_constraint_reach_their_weights(inputs, kind):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        use_bias=True,
        bias_initializer="ones",
        **{f"{kind}_regularizer": "l2", f"{kind}_constraint": "non_neg"},
    )
    layer(inputs)
    weights = [
        w for w in layer.trainable_weights if kind in w.path.split("/")[-1]
    ]
    assert len(weights) == (2 if kind == "relation" else 4)
    expected = sum(0.01 * (np.array(w, "float64") ** 2).sum() for w in weights)
    np.testing.assert_allclose(sum(layer.losses), expected, rtol=1e-5)
    for weight in layer.trainable_weights:
        assert (weight.constraint is not None) == any(
            weight is w for w in weights
        )


# === What every layer owes to Keras ===


@HEADS
@pytest.mark.parametrize("return_scores", [False, True])
def test_layer_behaves_as_a_keras_layer(
    inputs, run_layer_test, share, return_scores
):
    layer = RelativeSelfAttention(
        N,
        H,
        K,
        value_dim=13,
        share_relations_across_heads=share,
        dropout=0.25,
        seed=3,
        relation_initializer=keras.initializers.RandomNormal(stddev=0.5),
        relation_regularizer="l2",
        relation_constraint="max_norm",
        kernel_regularizer="l1",
    )
    run_layer_test(
        layer,
        [inputs],
        num_weights=6,
        return_attention_scores=return_scores,
    )


@pytest.mark.parametrize("return_scores", [False, True])
def test_outputs_may_have_another_width(inputs, run_layer_test, return_scores):
    layer = RelativeSelfAttention(N, H, K, output_shape=17)
    assert layer(inputs).shape == (B, T, 17)
    assert layer.compute_output_shape((None, None, D)) == (None, None, 17)
    assert layer.get_config()["output_shape"] == 17
    run_layer_test(
        layer,
        [inputs],
        num_weights=6,
        return_attention_scores=return_scores,
    )


def test_symbolic_attention_mask_is_taken(inputs, build_layer):
    layer = build_layer()
    symbols = [keras.Input((T, D)), keras.Input((T, T), dtype="bool")]
    model = keras.Model(symbols, layer(symbols[0], attention_mask=symbols[1]))
    mask = np.broadcast_to(np.tri(T, dtype=bool), (B, T, T))
    assert_same(model([inputs, mask]), layer(inputs, use_causal_mask=True))


def test_layer_takes_any_length_in_one_graph(inputs, build_layer):
    layer = build_layer()
    symbol = keras.Input((None, D))
    model = keras.Model(symbol, layer(symbol, use_causal_mask=True))
    for length in (1, 3, T):
        part = inputs[:, :length]
        expected, _ = reference(
            layer, part, np.broadcast_to(np.tri(length), (B, length, length))
        )
        assert_same(model.predict(part, verbose=0), expected)


def test_dropout_is_active_only_in_training(inputs, build_layer):
    layer = build_layer(dropout=0.5, seed=7)
    expected, expected_scores = reference(layer, inputs)
    assert_same(layer(inputs), expected)
    assert_same(layer(inputs, training=False), expected)
    outputs, scores = layer(inputs, training=True, return_attention_scores=True)
    assert np.abs(outputs - expected).max() > 1e-2
    assert np.abs(layer(inputs, training=True) - outputs).max() > 1e-2
    # The scores are those before dropout.
    assert_same(scores, expected_scores)


def test_dropout_keeps_the_mean_of_the_outputs(inputs, build_layer):
    layer = build_layer(dropout=0.5, seed=7)
    # One sentence many times over: each copy has a mask of its own.
    copies = np.repeat(inputs[:1], 2000, axis=0)
    draws = np.array(layer(copies, training=True), "float64")
    expected, _ = reference(layer, inputs[:1])
    standard_errors = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - expected[0]) < 5 * standard_errors).all()


# === Ways to compute it ===


@pytest.mark.parametrize(
    ("length", "distance", "takes_blocks"),
    [
        (63, 16, False),
        (64, 16, True),
        (64, 32, False),
        (128, 64, False),
        (129, 64, True),
        (256, 128, False),
        (257, 200, True),
    ],
)
def test_auto_takes_blocks_where_most_pairs_are_far(
    monkeypatch, rng, length, distance, takes_blocks
):
    module = sys.modules[RelativeSelfAttention.__module__]
    calls = []

    def block_attention(*arguments, **options):
        calls.append(arguments)
        return compute(*arguments, **options)

    compute = module.block_attention
    monkeypatch.setattr(module, "block_attention", block_attention)
    RelativeSelfAttention(N, H, distance)(normal(rng, 1, length, D))
    assert bool(calls) == takes_blocks


@pytest.mark.parametrize("implementation", ["transpose", "blocks"])
def test_optimizer_that_takes_no_sparse_updates_works(rng, implementation):
    model = keras.Sequential(
        [
            keras.Input((T, D)),
            RelativeSelfAttention(N, H, K, implementation=implementation),
        ]
    )
    model.compile(keras.optimizers.Adafactor(0.1), "mse")
    before = [np.array(weight) for weight in model.trainable_weights]
    model.fit(
        normal(rng, B, T, D), normal(rng, B, T, D), batch_size=B, verbose=0
    )
    for weight, old in zip(model.trainable_weights, before):
        assert np.abs(np.array(weight) - old).max() > 0
