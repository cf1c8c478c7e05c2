"""One sentence of 8,192 tokens, which a (T, T) tensor a head would not let."""

import re
import subprocess
import sys

import keras
import pytest

# A process of its own, as its largest resident set is that of its whole life.
TRAIN = """
import resource
import keras
import numpy as np
import relative_attention as ra

inputs = np.random.default_rng(0).normal(size=(1, 8192, 512))
model = keras.Sequential([ra.RelativeSelfAttention(8, 64, 16)])
model.compile(keras.optimizers.Adam(1e-3), "mse", jit_compile=False)
losses = [
    model.train_on_batch(inputs, np.zeros_like(inputs)) for _ in range(2)
]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("losses", *map(float, losses), "peak", peak)
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
    first, second, kilobytes = re.search(
        r"losses (\S+) (\S+) peak (\d+)", shown
    ).groups()
    assert float(second) < float(first)
    assert int(kilobytes) * 1024 < 6e9
