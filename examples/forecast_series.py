"""Forecasts the next value of a noisy wave from those before it.

    python examples/forecast_series.py

Causal attention: the forecast at each step sees no later value.
"""

import keras
import numpy as np

import relative_attention as ra

STEPS, EPOCHS, EXAMPLES = 64, 6, 2_000
rng = np.random.default_rng(0)
period, phase = rng.uniform(8, 16, (2, EXAMPLES, 1))
waves = np.sin(2 * np.pi * (np.arange(STEPS + 1) + phase) / period)
series = (waves + rng.normal(0, 0.1, waves.shape))[..., None].astype("float32")
past, following = series[:, :-1], series[:, 1:]

inputs = keras.Input((None, 1))
x = keras.layers.Dense(32)(inputs)
for _ in range(2):
    attention = ra.SelfAttention(
        4, key_dim=8, position_encoding="rotary", bidirectional=False
    )
    normalized = keras.layers.LayerNormalization()(x)
    x = x + attention(normalized, use_causal_mask=True)
    x = x + ra.FeedForward(64)(keras.layers.LayerNormalization()(x))
model = keras.Model(inputs, keras.layers.Dense(1)(x))

model.compile(keras.optimizers.Adam(3e-3), "mse")
model.fit(past, following, 32, EPOCHS, validation_split=0.1, verbose=2)
print("as the last value:", float(np.mean((past - following) ** 2)))
