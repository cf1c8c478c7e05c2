"""A training step never holds all logits of its batch."""

import subprocess
import sys

import keras
import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or keras.backend.backend() != "tensorflow",
    reason="measures a process of TensorFlow as Linux counts it",
)

# 8,192 tokens of 32,768 pieces: their logits alone take 1,024 MiB.
STEPS = """
import sys

import keras
import numpy as np

import relative_attention as ra
from tests.peak_memory import peak_memory

has_logits = sys.argv[1] == "logits"
model = ra.Transformer.from_preset(
    "transformer_tiny_relative",
    vocabulary_size=32768,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
accuracy = keras.metrics.SparseCategoricalAccuracy()
model.compile(
    keras.optimizers.SGD(0.1),
    ra.MaskedCrossEntropy(0.1),
    metrics=[accuracy if has_logits else ra.TokenAccuracy()],
)
assert model.is_projected is not has_logits
ids = np.random.default_rng(0).integers(2, 32768, (256, 32))
inputs = {"source_token_ids": ids, "target_token_ids": ids}
before = peak_memory()
for _ in range(3):
    model.train_on_batch(inputs, ids)
print(peak_memory() - before)
"""


@pytest.mark.large
def test_step_without_logits_needs_far_less_memory():
    memory = {}
    for kind in ("projected", "logits"):
        done = subprocess.run(
            [sys.executable, "-c", STEPS, kind],
            capture_output=True,
            text=True,
            check=True,
        )
        memory[kind] = int(done.stdout.splitlines()[-1])
    assert memory["projected"] < 0.6 * memory["logits"]
