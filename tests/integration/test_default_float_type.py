"""The package under another default float type of Keras."""

import pytest

SCRIPT = """
import sys

import keras

keras.config.set_floatx(sys.argv[1])

import numpy as np
import tensorflow as tf

import relative_attention as ra

x = np.random.default_rng(0).normal(size=(2, 70, 16))
is_real = np.arange(70) < np.array([[70], [40]])


def check(layer, *arguments, **options):
    with tf.GradientTape() as tape:
        outputs = layer(x, *arguments, training=True, **options)
        total = tf.reduce_sum(tf.cast(outputs, "float32"))
    assert outputs.dtype == sys.argv[1]
    variables = [variable.value for variable in layer.trainable_variables]
    for gradient in tape.gradient(total, variables):
        assert np.isfinite(np.array(tf.convert_to_tensor(gradient))).all()


masked = {"attention_mask": is_real[:, None], "use_causal_mask": True}
for way in ("transpose", "auto"):
    layer = ra.RelativeSelfAttention(2, 8, 4, dropout=0.01, implementation=way)
    check(layer, **masked)
check(ra.RelativeGlobalAttention(2, 8, 4, use_value_relations=True), **masked)
labels = np.zeros((70, 70), "int32")
check(ra.RelationAwareSelfAttention(2, 8, 4), labels, **masked)
check(ra.CrossAttention(2, 8), x, padding_mask=is_real)

source = np.array([[5, 6, 7, 1, 0], [5, 9, 1, 0, 0]])
target = np.array([[0, 5, 6], [0, 7, 8]])
labels = np.array([[5, 6, 1], [7, 1, 0]])
model = ra.Transformer.from_preset(
    "transformer_tiny_relative",
    vocabulary_size=50,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
found = ra.beam_search(model, source, num_beams=2, max_extra_length=3)
assert np.isfinite(found["scores"]).all()
found = ra.sample(model, source, max_extra_length=3, top_p=0.9)
assert np.isfinite(found["scores"]).all()
model.compile(keras.optimizers.SGD(0.01), ra.MaskedCrossEntropy())
inputs = {"source_token_ids": source, "target_token_ids": target}
history = model.fit(inputs, labels, verbose=0).history
assert np.isfinite(history["loss"]).all()
print("done")
"""


# A process for each, as it is one setting for all of a process.
@pytest.mark.large
@pytest.mark.parametrize("name", ["float64", "float16"])
def test_layers_decoding_and_training_work(name, run_python):
    assert run_python(SCRIPT, name, KERAS_BACKEND="tensorflow")
