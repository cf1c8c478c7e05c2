"""A strategy of one device, such as a machine with one GPU has."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.words_model import Words
from tests.words_model import batch_of


@pytest.mark.only_on("tensorflow", reason="tf.distribute")
@pytest.mark.parametrize(
    "accumulation_steps", [pytest.param(1, marks=pytest.mark.large), 2]
)
def test_mirrored_strategy_of_one_device_trains_as_none(accumulation_steps):
    import tensorflow as tf

    inputs, labels, weights = batch_of(4)
    trained = []
    for strategy in (
        tf.distribute.get_strategy(),
        tf.distribute.MirroredStrategy(["CPU:0"]),
    ):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = Words()
            model.compile(
                keras.optimizers.SGD(0.1),
                ra.MaskedCrossEntropy(),
                accumulation_steps=accumulation_steps,
                run_eagerly=not trained,
            )
        before = model.get_weights()
        model.fit(inputs, labels, sample_weight=weights, epochs=2, verbose=0)
        trained.append(model.get_weights())
    for alone, mirrored in zip(*trained):
        np.testing.assert_allclose(alone, mirrored, atol=1e-6)
    assert any((start != end).any() for start, end in zip(before, trained[0]))
