"""Sentences of thousands of tokens."""

import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from relative_attention import RelativeSelfAttention

# A process of its own, as its largest resident set is that of its whole life.
TRAIN = """
import keras
import numpy as np
import relative_attention as ra
from tests.peak_memory import peak_memory

inputs = np.random.default_rng(0).normal(size=(1, 8192, 512))
model = keras.Sequential([ra.RelativeSelfAttention(8, 64, 16)])
model.compile(keras.optimizers.Adam(1e-3), "mse", jit_compile=False)
losses = [
    model.train_on_batch(inputs, np.zeros_like(inputs)) for _ in range(2)
]
print("losses", *map(float, losses), "peak", peak_memory())
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or keras.backend.backend() != "tensorflow",
    reason="measures a process of TensorFlow as Linux counts it",
)
def test_layer_trains_on_8192_tokens_in_6_gigabytes():
    shown = subprocess.run(
        [sys.executable, "-c", TRAIN],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first, second, peak = re.search(
        r"losses (\S+) (\S+) peak (\d+)", shown
    ).groups()
    assert float(second) < float(first)
    assert int(peak) < 6e9


@pytest.mark.slow
@pytest.mark.only_on("tensorflow", reason="takes float64")
@pytest.mark.parametrize("length", [1000, 4096])
def test_long_sentence_has_the_numbers_of_tensor2tensor(rng, length):
    inputs, upstream = rng.normal(size=(2, 1, length, 6))
    # Gradients of the tables are sums over all pairs of tokens, in which
    # tensor2tensor's way itself needs float64 to be this exact.
    exact, layer = (
        RelativeSelfAttention(
            2, 4, 16, implementation=implementation, dtype=dtype
        )
        for implementation, dtype in (
            ("transpose", "float64"),
            ("auto", "float32"),
        )
    )
    exact.build(inputs.shape)
    layer.build(inputs.shape)
    layer.set_weights(exact.get_weights())
    results = [
        outputs_and_gradients(x, inputs, upstream) for x in (layer, exact)
    ]
    for result, expected in zip(*results, strict=True):
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(result / scale, expected / scale, atol=1e-5)


def outputs_and_gradients(layer, inputs, upstream):
    import tensorflow as tf

    inputs, upstream = (
        tf.cast(x, layer.compute_dtype) for x in (inputs, upstream)
    )
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, use_causal_mask=True)
    weights = [weight.value for weight in layer.trainable_weights]
    return [outputs, *tape.gradient(outputs, [inputs, *weights], upstream)]
