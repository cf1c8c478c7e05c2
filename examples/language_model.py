"""Trains a small language model on characters, and lets it write.

python examples/language_model.py
"""

import keras
import numpy as np

import relative_attention as ra

LENGTH, EPOCHS, EXAMPLES = 32, 5, 4_000
rng = np.random.default_rng(0)
words = "the cat sees a small dog and the old bird hears a red fox . ".split()
text = " ".join(rng.choice(words, 20_000))
letters = sorted(set(text))
ids = np.array([letters.index(letter) for letter in text], "int32")
starts = rng.integers(0, len(ids) - LENGTH, (EXAMPLES, 1))
rows = ids[starts + np.arange(LENGTH + 1)]

inputs = keras.Input((None,), dtype="int32")
x = keras.layers.Embedding(len(letters), 64)(inputs)
for _ in range(2):
    attention = ra.RelativeSelfAttention(4, 16, max_relative_position=16)
    normalized = keras.layers.LayerNormalization()(x)
    x = x + attention(normalized, use_causal_mask=True)
    x = x + ra.FeedForward(128)(keras.layers.LayerNormalization()(x))
logits = keras.layers.Dense(len(letters))(x)
model = keras.Model(inputs, logits)

loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
model.fit(rows[:, :-1], rows[:, 1:], 32, EPOCHS, verbose=2)

written = list(rows[0])
for _ in range(60):
    following = model.predict(np.array([written[-LENGTH:]]), verbose=0)[0, -1]
    written.append(int(np.argmax(following + rng.gumbel(size=len(letters)))))
print("".join(letters[id] for id in written))
