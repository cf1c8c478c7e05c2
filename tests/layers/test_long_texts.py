"""Attention whose scores are computed again, against attention with all."""

import importlib

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers.attention import CrossAttention
from relative_attention.layers.cache import fixed_cache

# A function has the name of another file of its room.
LONG = importlib.import_module("relative_attention.ops.long_attention")
B, T, S, D, N, H = 2, 11, 7, 12, 3, 4
ENCODINGS = ["relative", "relative_global", "rotary", "alibi", "t5", None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(LONG, "_MOST_QUERIES", 3)


def fill(layer):
    rng = np.random.default_rng(1)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    return layer


def self_attention(implementation, encoding="relative", **options):
    layer = ra.SelfAttention(
        N, H, encoding, implementation=implementation, **options
    )
    layer.build((None, None, D))
    return fill(layer)


def numbers(gradients, layer, inputs, **options):
    """Outputs, and gradients of inputs and of all weights."""
    outputs = ops.convert_to_numpy(layer(*inputs, **options))
    weights = ops.convert_to_tensor(
        np.random.default_rng(2).normal(size=outputs.shape).astype("float32")
    )
    return [
        outputs,
        *gradients(
            lambda *inputs: ops.sum(layer(*inputs, **options) * weights),
            inputs,
            variables=layer.trainable_weights,
        ),
    ]


def assert_equal(results, wanted):
    for result, array in zip(results, wanted, strict=True):
        scale = max(1, np.abs(array).max())
        np.testing.assert_allclose(result / scale, array / scale, atol=1e-5)


def test_blocks_have_each_row_once_and_parts_the_keys_of_their_rows():
    for length in range(60):
        for is_causal in (False, True):
            blocks = LONG.Blocks.of(length, is_causal)
            assert blocks.block_queries <= 3  # Of `small_blocks`.
            # Fewer rows of padding than blocks: none could have one row less.
            missing = blocks.num_padded - length
            assert 0 <= missing < blocks.num_blocks
            ends = [blocks.end(part) for part in range(blocks.num_parts)]
            assert ends[-1] == blocks.num_padded
            steps = np.diff([0, *ends])
            assert (steps == blocks.part_blocks * blocks.block_queries).all()
            assert (blocks.num_parts > 1) <= is_causal


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_recomputed_attention_equals_attention_with_all_scores(
    rng, gradients, encoding, is_causal
):
    x = rng.normal(size=(B, T, D)).astype("float32")
    attention_mask = rng.random((B, T, T)) < 0.7
    # A query that may attend to nothing.
    attention_mask[0, 4] = False
    options = {
        "attention_mask": ops.convert_to_tensor(attention_mask),
        "inputs_mask": ops.convert_to_tensor(np.arange(T) < [[T], [6]]),
        "use_causal_mask": is_causal,
    }
    # There is dropout, but none outside training.
    all_scores, recomputed = (
        self_attention(name, encoding, bidirectional=not is_causal, dropout=0.5)
        for name in ("auto", "recompute")
    )
    assert_equal(
        numbers(gradients, recomputed, [x], **options),
        numbers(gradients, all_scores, [x], **options),
    )


def test_recomputed_cross_attention_is_the_same(rng, gradients):
    x, source = (
        rng.normal(size=(B, length, D)).astype("float32") for length in (T, S)
    )
    padding_mask = ops.convert_to_tensor(np.arange(S) < [[S], [0]])
    results = []
    for implementation in ("recompute", "auto"):
        layer = CrossAttention(N, H, implementation=implementation, dropout=0.5)
        layer.build((None, None, D), (None, None, D))
        fill(layer)
        results.append(
            numbers(gradients, layer, [x, source], padding_mask=padding_mask)
        )
    assert_equal(*results)


class FrozenOffset(ra.positions.PositionEncoding):
    """A number for each head, of which one may be trained and one may not."""

    def build(self, layer, bidirectional):
        layer.offsets = [
            layer.add_weight(shape=(N, 1, 1), trainable=trainable)
            for trainable in (True, False)
        ]

    def logits(self, layer, query, query_positions, key_positions):
        distance = key_positions[None] - query_positions[:, None]
        offset = layer.offsets[0] + 2 * layer.offsets[1]
        return ops.cast(offset, query.dtype) * ops.cast(distance, query.dtype)


@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("encoding", ["t5", FrozenOffset()], ids=["t5", "own"])
def test_weights_of_the_caller_take_the_place_of_frozen_ones(
    rng, encoding, frozen
):
    layer = self_attention("recompute", encoding)
    layer.trainable = not frozen
    x = ops.convert_to_tensor(rng.normal(size=(B, T, D)).astype("float32"))
    values = {
        id(weight): rng.normal(size=weight.shape).astype("float32") / 2
        for weight in layer.weights
    }
    outputs, _ = layer.stateless_call(
        *(
            # Seeds have values of their own.
            [values.get(id(variable), variable.value) for variable in variables]
            for variables in (
                layer.trainable_variables,
                layer.non_trainable_variables,
            )
        ),
        x,
    )
    for weight in layer.weights:
        weight.assign(values[id(weight)])
    layer.implementation = "auto"
    assert_equal([ops.convert_to_numpy(outputs)], [np.array(layer(x))])


@pytest.mark.only_on("jax", reason="only there does `fit` hand weights in")
def test_adapters_are_fitted_beside_a_frozen_encoding(rng):
    x, target = rng.normal(size=(2, B, T, D)).astype("float32")
    results = []
    for implementation in ("recompute", "auto"):
        layer = self_attention(implementation, "t5")
        for weight in layer.trainable_weights:
            weight.trainable = False
        layer.query_dense.enable_lora(2)
        adapters = fill(layer).trainable_weights
        before = [ops.convert_to_numpy(weight) for weight in adapters]
        symbol = keras.Input((None, D))
        model = keras.Model(symbol, layer(symbol))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(x, target, epochs=2, verbose=0)
        results.append([ops.convert_to_numpy(weight) for weight in adapters])
    assert_equal(*results)
    for old, new in zip(before, results[0], strict=True):
        assert np.abs(new - old).max() > 1e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_may_be_in_half_precision(rng, dtype):
    x = rng.normal(size=(B, T, D)).astype("float32")
    recomputed = self_attention("recompute", dtype=dtype)
    exact = self_attention("auto")
    exact.set_weights(recomputed.get_weights())
    result = np.array(ops.cast(recomputed(x), "float32"))
    expected = np.array(
        exact(np.array(ops.cast(ops.cast(x, dtype), "float32")))
    )
    error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
    # Each number is rounded some ten times on its way.
    assert error < 10 * float(ml_dtypes.finfo(dtype).eps)


@pytest.mark.parametrize("encoding", ["relative", "t5"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
def test_functional_model_takes_any_length(encoding, is_causal):
    layer = self_attention("recompute", encoding)
    symbol = keras.Input((None, D))
    model = keras.Model(symbol, layer(symbol, use_causal_mask=is_causal))
    assert model.output_shape == (None, None, D)
    x = np.ones((B, T, D), "float32")
    assert_equal(
        [np.array(model(x))], [np.array(layer(x, use_causal_mask=is_causal))]
    )


@pytest.mark.only_on("jax", reason="an option of JAX")
def test_ints_may_have_64_bits(rng):
    import jax

    layer = self_attention("recompute")
    x = rng.normal(size=(B, T, D)).astype("float32")
    mask = rng.random((T, T)) < 0.7
    expected = np.array(layer(x, attention_mask=mask))
    with jax.enable_x64(True):
        result = np.array(layer(x, attention_mask=mask))
        cache = fixed_cache(layer.start_cache(B), T)
        outputs, _ = jax.jit(layer.decode_step)(x[:, :1], cache, 0)
    assert_equal([result], [expected])
    expected = layer(x[:, :1])
    assert_equal([np.array(outputs)], [np.array(expected)])


@pytest.mark.only_on("jax", reason="elsewhere Keras hides no flags")
@pytest.mark.parametrize("implementation", ["auto", "recompute"])
def test_scope_of_rematerialization_may_hide_if_it_is_training(
    rng, implementation
):
    import jax

    x = rng.normal(size=(B, T, D)).astype("float32")
    with keras.RematScope(mode="full"):
        layer = self_attention(implementation)
        feed_forward = ra.FeedForward(D)
        feed_forward.build((None, None, D))
        dropout = ra.layers.Dropout(0.1)
    gradient = jax.grad(
        lambda x: ops.sum(feed_forward(layer(x, training=True), training=True))
    )
    assert np.isfinite(gradient(x)).all()
    with pytest.raises(ValueError, match="`keras.RematScope` hides which"):
        dropout(x, training=True)


@pytest.mark.parametrize("encoding", ["relative", "t5"])
def test_both_passes_drop_the_same_scores(rng, gradients, encoding):
    layer = self_attention("recompute", encoding, dropout=0.4)
    x, direction = rng.normal(size=(2, B, T, D)).astype("float32")
    state = layer.dropout_layer.seed_generator.state
    seed = ops.convert_to_numpy(state.value)

    def total(x):
        # The same dropout in every call.
        state.assign(seed)
        return ops.sum(ops.square(layer(x, training=True)))

    def at(step):
        moved = ops.convert_to_tensor(x + step * direction)
        return float(ops.convert_to_numpy(total(moved)))

    (gradient,) = gradients(total, [x])
    step = 1e-2
    slope = (at(step) - at(-step)) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=2e-2)


def test_each_block_draws_another_dropout():
    # All scores are equal, and a value shows which keys are kept.
    layer = ra.SelfAttention(
        1, T, None, implementation="recompute", dropout=0.5, output_shape=T
    )
    layer.build((None, None, T))
    for dense in (layer.query_dense, layer.key_dense):
        dense.kernel.assign(np.zeros((T, 1, T)))
    layer.value_dense.kernel.assign(np.eye(T)[:, None])
    layer.output_dense.kernel.assign(np.eye(T)[None])
    rows = [
        row
        for _ in range(3)
        for row in ops.convert_to_numpy(layer(np.eye(T)[None], training=True))[
            0
        ]
    ]
    assert set(np.round(np.unique(rows) * T, 3)) == {0, 2}
    assert len({row.tobytes() for row in rows}) > 25


def spoiled(layer, length):
    """Where causal outputs change when the last inputs are no numbers."""
    x = np.random.default_rng(1).normal(size=(1, length, D)).astype("float32")
    clean = ops.convert_to_numpy(layer(x, use_causal_mask=True))
    x[:, length - 8 :] = np.nan
    found = ops.convert_to_numpy(layer(x, use_causal_mask=True))
    return (found != clean).any(axis=(0, 2))


def test_later_keys_are_not_computed():
    """Numbers that would spoil masked scores do no harm."""
    assert not spoiled(self_attention("recompute"), 48)[:36].any()


def test_scores_are_recomputed_when_a_text_is_long(monkeypatch):
    monkeypatch.setattr(LONG, "MOST_PAIRS", 48 * 48)
    layer = self_attention("auto")
    assert spoiled(layer, 48).all()
    assert not spoiled(layer, 49)[:36].any()
    # Scores are asked for, so there must be all of them.
    x = np.zeros((1, 49, D), "float32")
    _, scores = layer(x, return_attention_scores=True)
    assert scores.shape == (1, N, 49, 49)


@pytest.mark.only_on("tensorflow", reason="elsewhere lengths are known")
@pytest.mark.parametrize(
    "encoding",
    [
        # Each takes seconds to become a graph with its gradients.
        pytest.param(
            encoding, marks=() if encoding == "relative" else pytest.mark.large
        )
        for encoding in (*ENCODINGS, ra.positions.Relative(1))
    ],
)
def test_a_graph_for_any_length_is_the_same(rng, encoding):
    import tensorflow as tf

    layer = self_attention("recompute", encoding, bidirectional=False)

    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, use_causal_mask=True)
        return [outputs, *tape.gradient(outputs, [x, *layer.trainable_weights])]

    # As `fit` traces it: Python's conditions are not converted.
    graph = tf.function(
        compute,
        input_signature=[tf.TensorSpec((None, None, D))],
        autograph=False,
    )
    x = tf.constant(rng.normal(size=(B, T, D)), "float32")
    assert_equal(*([*map(np.array, f(x))] for f in (graph, compute)))


def test_implementation_is_kept_in_configs():
    layer = CrossAttention(N, H, implementation="recompute")
    again = CrossAttention.from_config(layer.get_config())
    assert again.implementation == "recompute"
    config = ra.TransformerConfig(
        vocabulary_size=9,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=8,
        num_heads=2,
        implementation="recompute",
    )
    block = ra.Transformer(config).decoder_blocks[0]
    assert block.self_attention.implementation == "recompute"
    assert block.cross_attention.implementation == "recompute"
