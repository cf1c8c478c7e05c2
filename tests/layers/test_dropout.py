"""Dropout by bytes: its share, its draws, its gradient."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers import Dropout
from relative_attention.layers import dropout as module
from relative_attention.layers.dropout import replica_seed
from relative_attention.layers.dropout import replica_seeds

RATES = pytest.mark.parametrize(
    "rate",
    # A threshold that is a whole number, one midway between two, and a rate
    # beyond what eight bits resolve: Keras' own dropout.
    [
        0.5,
        76.5 / 256,
        0.01,
        *(
            pytest.param(rate, marks=pytest.mark.large)
            for rate in (0.1, 0.3, 0.75, 1 / 32, 0.9, 0.99)
        ),
    ],
    ids="{:.3g}".format,
)


@pytest.fixture
def inputs(rng):
    """No zeros, so that a zero is a dropped element."""
    return (1 + rng.random((53, 401))).astype("float32")


@RATES
def test_dropped_share_is_the_rate(rate):
    layer = Dropout(rate, seed=11)
    ones = np.ones((211, 401), "float32")
    calls = 100
    dropped = sum(
        np.count_nonzero(np.array(layer(ones, training=True)) == 0)
        for _ in range(calls)
    )
    # The threshold of eight bits is rounded up or down once a call. Rounding
    # 76.5 in one direction always would be off by seven deviations.
    fraction = rate * 256 % 1
    variance = rate * (1 - rate) / ones.size
    variance += fraction * (1 - fraction) / 256**2
    assert abs(dropped / calls / ones.size - rate) < 5 * np.sqrt(
        variance / calls
    )


@pytest.mark.parametrize("rate", [0.1, 0.5], ids=str)
def test_elements_are_dropped_independently(rate):
    layer = Dropout(rate, seed=11)
    masks = np.array(layer(np.ones((397, 1013), "float32"), training=True)) == 0
    share = masks.mean()
    for shift in (1, 2, 4, 1013):
        flat = masks.reshape(-1)
        both = (flat[shift:] & flat[:-shift]).mean()
        # Five standard errors of the share of pairs.
        assert abs(both - share**2) < 5 * np.sqrt(
            3 * share**2 * (1 - share) / flat.size
        )


@RATES
def test_kept_elements_are_scaled_so_that_the_mean_stays(inputs, rate):
    layer = Dropout(rate, seed=11)
    outputs = np.array(layer(inputs, training=True))
    kept = outputs != 0
    assert kept.any() and not kept.all()
    np.testing.assert_allclose(
        outputs[kept], inputs[kept] / (1 - rate), rtol=1e-6
    )
    # Five standard errors, and what rounding the threshold may shift.
    error = np.sqrt((inputs**2).mean() * rate / (1 - rate) / inputs.size)
    shift = inputs.mean() / 256 / (1 - rate)
    assert abs(outputs.mean() - inputs.mean()) < 5 * error + shift


@RATES
def test_gradient_has_the_mask_of_the_outputs(inputs, gradients, rate, rng):
    weights = (1 + rng.random(inputs.shape)).astype("float32")
    layer, twin = (Dropout(rate, seed=11) for _ in range(2))
    outputs = np.array(layer(inputs, training=True))
    (gradient,) = gradients(
        lambda inputs: ops.sum(
            ops.multiply(twin(inputs, training=True), weights)
        ),
        [inputs],
    )
    np.testing.assert_allclose(gradient, outputs / inputs * weights, rtol=1e-5)


def test_same_seed_draws_the_same_masks(inputs):
    first, second, other = (Dropout(0.3, seed=seed) for seed in (11, 11, 12))
    for _ in range(3):
        outputs = np.array(first(inputs, training=True))
        np.testing.assert_array_equal(second(inputs, training=True), outputs)
        assert (np.array(other(inputs, training=True)) != outputs).any()


def test_noise_shape_shares_the_mask():
    layer = Dropout(0.5, noise_shape=(None, 1), seed=11)
    outputs = np.array(layer(np.ones((53, 7), "float32"), training=True))
    assert (outputs == outputs[:, :1]).all()
    assert 0 < (outputs[:, 0] == 0).sum() < 53


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_kept(inputs, dtype):
    layer = Dropout(0.25, seed=11, dtype=f"mixed_{dtype}")
    outputs = layer(inputs, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    outputs = np.array(ops.cast(outputs, "float32"))
    kept = outputs != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(outputs[kept], inputs[kept] / 0.75, rtol=1e-2)


@pytest.mark.only_on("tensorflow", reason="it is about tf.function")
def test_graph_draws_anew_at_each_call(inputs):
    symbol = keras.Input((None,))
    model = keras.Model(symbol, Dropout(0.3, seed=11)(symbol))
    import tensorflow as tf

    graph = tf.function(lambda x: model(x, training=True))
    first, second = (np.array(graph(inputs)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(
        Dropout(0.3, seed=11)(inputs, training=True), first
    )


B, T, D, N, H = 2, 7, 11, 3, 4


DROPOUT = {"dropout": 0.5, "seed": 7}


@pytest.mark.parametrize(
    "layer",
    [
        ra.RelativeSelfAttention(N, H, 2, **DROPOUT),
        ra.RelationAwareSelfAttention(N, H, 4, **DROPOUT),
        ra.RelativeGlobalAttention(
            N, H, 3, use_value_relations=True, **DROPOUT
        ),
        ra.RelativeGlobalAttention(
            N, H, 3, causal=True, use_value_relations=True, **DROPOUT
        ),
    ],
    ids=["relative", "relation_aware", "global", "global_causal"],
)
def test_one_dropout_serves_values_and_their_relations(rng, layer):
    inputs = [rng.normal(size=(B, T, D)).astype("float32")]
    if isinstance(layer, ra.RelationAwareSelfAttention):
        inputs.append(rng.integers(0, 4, size=(B, T, T)).astype("int32"))
    layer.build((None, None, D))
    weights = layer.get_weights()

    def outputs(*kept, training=True):
        """Those of a new layer, the same draw; outputs are linear in both."""
        clone = type(layer).from_config(layer.get_config())
        clone.build((None, None, D))
        clone.set_weights(weights)
        for name, weight in (
            ("values", clone.value_dense.kernel),
            ("relations", clone.value_relation_embeddings),
        ):
            if name not in kept:
                weight.assign(np.zeros(weight.shape))
        return np.array(clone(*inputs, training=training))

    for kept in ("values", "relations"):
        difference = outputs(kept) - outputs(kept, training=False)
        assert np.abs(difference).max() > 1e-3, kept
    np.testing.assert_allclose(
        outputs("values") + outputs("relations"),
        outputs("values", "relations"),
        rtol=1e-5,
        atol=1e-5,
    )


ON_TENSORFLOW = pytest.mark.only_on(
    "tensorflow", reason="tf.distribute is TensorFlow's"
)


@ON_TENSORFLOW
def test_first_replica_keeps_the_seed_and_others_do_not():
    seed = ops.array([5, 2], "uint32")
    seeds = [
        tuple(ops.convert_to_numpy(replica_seed(seed, number)).tolist())
        for number in range(3)
    ]
    # The golden ratio of 2^32, once and twice, beside the count of draws.
    assert seeds == [
        (5, 2),
        (5 + 0x9E3779B1, 2),
        ((5 + 2 * 0x9E3779B1) % 2**32, 2),
    ]


@ON_TENSORFLOW
def test_replica_draws_by_its_own_seed_and_counts_as_all_do(monkeypatch):
    generator = keras.random.SeedGenerator(3)
    monkeypatch.setattr(module, "replica_number", lambda: ops.array(1))
    with replica_seeds(generator) as seeds:
        drawn = np.array(keras.random.uniform((7,), seed=seeds))
    np.testing.assert_array_equal(generator.state.value, [3, 1])
    twin = keras.random.SeedGenerator(0)
    twin.state.assign(np.array([3 + 0x9E3779B1, 0], "uint32"))
    np.testing.assert_array_equal(keras.random.uniform((7,), seed=twin), drawn)
