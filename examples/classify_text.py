"""Classifies sequences whose label depends on order: did "a" come before "b"?

    python examples/classify_text.py

A model without positions guesses; with relative positions it is right.
"""

import keras
import numpy as np

import relative_attention as ra

# Each row has one token 1 ("a"), one token 2 ("b"), and others; 0 is padding.
LENGTH, VOCABULARY, EPOCHS, EXAMPLES = 20, 50, 8, 8_000
rng = np.random.default_rng(0)
tokens = rng.integers(3, VOCABULARY, (EXAMPLES, LENGTH))
places = np.argsort(rng.random((EXAMPLES, LENGTH - 5)))[:, :2]
np.put_along_axis(tokens, places, [[1, 2]], axis=1)
tokens[np.arange(LENGTH) >= rng.integers(15, LENGTH + 1, (EXAMPLES, 1))] = 0
labels = places[:, 0] < places[:, 1]

inputs = keras.Input((None,), dtype="int32")
x = keras.layers.Embedding(VOCABULARY, 32, mask_zero=True)(inputs)
attention = ra.RelativeSelfAttention(4, key_dim=8, max_relative_position=8)
x = keras.layers.add([x, attention(x)])  # keeps the padding mask
x = keras.layers.LayerNormalization()(x)
x = keras.layers.add([x, ra.FeedForward(64)(x)])
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(x))

model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(tokens, labels, 64, EPOCHS, validation_split=0.1, verbose=2)
