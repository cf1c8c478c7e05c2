"""Parts of a batch one after another, in a graph that XLA compiles."""

import keras
import numpy as np
import pytest

import relative_attention as ra

pytestmark = pytest.mark.only_on("tensorflow", reason="parts of a batch")

V = 11


def batch(rng, num_rows):
    source = rng.integers(2, V, (num_rows, 7)).astype("int32")
    labels = rng.integers(2, V, (num_rows, 5)).astype("int32")
    source[0, 4:] = 0
    labels[0, 2:] = 0
    weights = (0.5 + rng.random((num_rows, 5))).astype("float32")
    targets = np.pad(labels, ((0, 0), (1, 0)))[:, :-1]
    inputs = {"source_token_ids": source, "target_token_ids": targets}
    return inputs, labels, weights


def dataset(batches):
    """Of unknown shapes, as batches of text are."""
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature=(
            {"source_token_ids": ids, "target_token_ids": ids},
            ids,
            tf.TensorSpec((None, None), tf.float32),
        ),
    )


def trained(batches, **options):
    keras.utils.set_random_seed(1)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=V,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=4,
        intermediate_dim=6,
        num_heads=2,
        max_relative_position=2,
        dropout=0.0,
        attention_dropout=0.0,
        intermediate_dropout=0.0,
    )
    start = model.get_weights()
    model.compile(keras.optimizers.SGD(0.5), ra.MaskedCrossEntropy(), **options)
    history = model.fit(
        dataset(batches), steps_per_epoch=1, shuffle=False, verbose=0
    ).history
    return start, model.get_weights(), history


# 7 rows: parts of 3, 3 and 1; 1 row: a part of 1, and two that are empty.
@pytest.mark.large
@pytest.mark.parametrize("num_rows", [7, 1])
def test_step_in_parts_is_that_of_the_whole_batch(rng, num_rows):
    batches = [batch(rng, num_rows)]
    start, whole, shown = trained(batches, jit_compile=False)
    _, parts, shown_of_parts = trained(
        batches, jit_compile=True, accumulation_steps=3
    )
    assert max(np.abs(a - b).max() for a, b in zip(start, whole)) > 1e-2
    for weight, expected in zip(parts, whole):
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-6)
    for name, values in shown.items():
        np.testing.assert_allclose(
            shown_of_parts[name], values, rtol=2e-6, err_msg=name
        )
