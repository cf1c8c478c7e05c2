"""A strategy of one device, such as a machine with one GPU has."""

import keras
import numpy as np
import pytest

import relative_attention as ra


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="tf.distribute")
@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_mirrored_strategy_of_one_device_trains_as_none(
    rng, accumulation_steps
):
    import tensorflow as tf

    ids = rng.integers(2, 11, (4, 5))
    batch = {"source_token_ids": ids, "target_token_ids": ids}
    weights = []
    for strategy in (
        tf.distribute.get_strategy(),
        tf.distribute.MirroredStrategy(["CPU:0"]),
    ):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = ra.Transformer.from_preset(
                "transformer_tiny_relative",
                vocabulary_size=11,
                num_encoder_layers=1,
                num_decoder_layers=1,
                hidden_dim=4,
                num_heads=2,
                dropout=0.0,
            )
            model.compile(
                keras.optimizers.SGD(0.1),
                ra.MaskedCrossEntropy(),
                accumulation_steps=accumulation_steps,
            )
        before = model.get_weights()
        model.fit(batch, ids, batch_size=4, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for alone, mirrored in zip(*weights):
        np.testing.assert_allclose(alone, mirrored, atol=1e-6)
    assert any((start != end).any() for start, end in zip(before, weights[0]))
