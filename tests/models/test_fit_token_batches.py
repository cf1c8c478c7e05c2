"""`fit` and `evaluate` take `TokenBatches`, on every backend."""

import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest

import relative_attention as ra

V = 13


class Words(ra.TrainableModel):
    """What a token says of the next; in place of a Transformer, as quicker."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(V, 4)
        self.dense = keras.layers.Dense(V)
        self.embedding.build()
        self.dense.build((None, None, 4))
        self.built = True

    def call(self, inputs, training=None):
        return self.dense(self.embedding(inputs["target_token_ids"]))


def corpus_of(lengths, rng):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(2, V, offsets[-1]).astype(np.uint16)
    return ra.TokenCorpus(
        source_ids=ids,
        source_offsets=offsets,
        target_ids=ids[::-1].copy(),
        target_offsets=offsets,
        line_numbers=np.arange(len(lengths)) + 1,
        num_empty=0,
        num_too_long=0,
    )


@pytest.fixture
def batches(rng):
    # The first two batches of an epoch may have one length, others not.
    lengths = np.repeat([3, 4, 7], 4)
    return ra.TokenBatches(corpus_of(lengths, rng), 16, seed=3)


def compiled():
    keras.utils.set_random_seed(1)
    model = Words()
    model.compile(keras.optimizers.SGD(0.5), ra.MaskedCrossEntropy())
    return model


def trained_by_hand(batches, num_steps):
    model = compiled()
    for step in range(num_steps):
        model.train_on_batch(*batches.train_batch(step))
    return model


def assert_same_weights(model, expected):
    for weight, other in zip(model.get_weights(), expected.get_weights()):
        np.testing.assert_allclose(weight, other, rtol=0, atol=1e-6)


def test_an_epoch_is_one_of_the_batches(batches):
    model = compiled()
    history = model.fit(batches, epochs=2, verbose=0).history
    assert_same_weights(model, trained_by_hand(batches, 2 * len(batches)))
    corpus = batches.corpus
    num_tokens = corpus.source_lengths.sum() + corpus.target_lengths.sum()
    assert history["tokens"] == [num_tokens] * 2
    # Every epoch has an order of its own.
    first, second = (
        [batches.batch_indices(epoch, n).tolist() for n in range(len(batches))]
        for epoch in (0, 1)
    )
    assert first != second


def test_training_goes_on_where_it_ended(batches):
    model = compiled()
    model.fit(batches, epochs=1, verbose=0)
    model.fit(batches, initial_epoch=1, epochs=3, verbose=0)
    assert_same_weights(model, trained_by_hand(batches, 3 * len(batches)))


def test_epochs_may_be_shorter_than_those_of_the_batches(batches):
    model = compiled()
    steps = len(batches) - 1
    model.fit(batches, epochs=3, steps_per_epoch=steps, shuffle=True, verbose=0)
    assert_same_weights(model, trained_by_hand(batches, 3 * steps))


def test_validation_sees_every_pair_once(batches, rng):
    others = ra.TokenBatches(corpus_of([5, 2, 2, 6], rng), 8)
    model = compiled()
    history = model.fit(
        batches, validation_data=others, epochs=2, verbose=0
    ).history
    num_tokens = 2 * (5 + 2 + 2 + 6 + 4)
    assert history["val_tokens"] == [num_tokens] * 2
    logs = model.evaluate(others, verbose=0, return_dict=True)
    assert logs["tokens"] == num_tokens
    np.testing.assert_allclose(logs["loss"], history["val_loss"][-1], rtol=1e-6)
    assert model.evaluate(x=others, verbose=0)[0] == logs["loss"]


@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_class_weights_are_refused(batches, method):
    data = batches.train_batch(0)
    with pytest.raises(ValueError, match="`sample_weight`"):
        getattr(compiled(), method)(*data, class_weight={3: 2.0})


# A process of its own, as devices are divided before TensorFlow starts.
REPLICAS = """
    import contextlib

    import keras
    import numpy as np
    import tensorflow as tf

    import relative_attention as ra

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    random = np.random.default_rng(0)
    lengths = np.repeat([3, 4, 7], 5)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = random.integers(2, 13, offsets[-1]).astype(np.uint16)
    corpus = ra.TokenCorpus(
        ids, offsets, ids, offsets, np.arange(len(lengths)), 0, 0
    )
    batches = ra.TokenBatches(corpus, 24)

    def trained(scope):
        keras.utils.set_random_seed(1)
        with scope:
            model = ra.Transformer.from_preset(
                "transformer_tiny_relative",
                vocabulary_size=13,
                num_encoder_layers=1,
                num_decoder_layers=1,
                hidden_dim=4,
                num_heads=2,
                dropout=0.0,
                attention_dropout=0.0,
                intermediate_dropout=0.0,
            )
            model.compile(keras.optimizers.SGD(0.5), ra.MaskedCrossEntropy())
        history = model.fit(
            batches, validation_data=batches, epochs=2, verbose=0
        )
        return model.get_weights(), history.history

    one, shown = trained(contextlib.nullcontext())
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    two, shown_of_two = trained(strategy.scope())
    for weight, expected in zip(two, one):
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-6)
    assert shown.keys() == shown_of_two.keys()
    assert not {"val_skipped", "val_gradient_norm"} & shown.keys()
    for name, values in shown.items():
        np.testing.assert_allclose(shown_of_two[name], values, rtol=2e-6)
"""


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="replicas are TensorFlow's")
def test_replicas_share_each_batch():
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REPLICAS)],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
