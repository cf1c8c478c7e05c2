"""`fit` and `evaluate` take `TokenBatches`, on every backend."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.words_model import Words
from tests.words_model import corpus_of


@pytest.fixture
def batches():
    # The first two batches of an epoch may have one length, others not.
    lengths = np.repeat([3, 4, 7], 4)
    return ra.TokenBatches(corpus_of(lengths), 16, seed=3)


def compiled():
    keras.utils.set_random_seed(1)
    model = Words()
    # Every shape would be traced anew, and compiled on JAX.
    model.compile(
        keras.optimizers.SGD(0.5), ra.MaskedCrossEntropy(), run_eagerly=True
    )
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


def test_validation_sees_every_pair_once(batches):
    others = ra.TokenBatches(corpus_of([5, 2, 2, 6], seed=1), 8)
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
