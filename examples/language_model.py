"""Trains a small language model on characters, and lets it write.

    python examples/language_model.py

It writes with a cache: each new letter costs one step, not a pass over all.
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

embedding = keras.layers.Embedding(len(letters), 64)
blocks = [
    (
        keras.layers.LayerNormalization(),
        ra.RelativeSelfAttention(4, 16, max_relative_position=16),
        keras.layers.LayerNormalization(),
        ra.FeedForward(128),
    )
    for _ in range(2)
]
to_logits = keras.layers.Dense(len(letters))

inputs = keras.Input((None,), dtype="int32")
x = embedding(inputs)
for first, attention, second, feed_forward in blocks:
    x = x + attention(first(x), use_causal_mask=True)
    x = x + feed_forward(second(x))
model = keras.Model(inputs, to_logits(x))

loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
model.fit(rows[:, :-1], rows[:, 1:], 32, EPOCHS, verbose=2)


def step(letter, caches, position):
    """Logits of the next letter and the caches, from one letter."""
    longer = []
    x = embedding(np.array([[letter]]))  # (1, 1, features)
    for (first, attention, second, feed_forward), cache in zip(blocks, caches):
        y, cache = attention.decode_step(first(x), cache, position)
        x = x + y
        x = x + feed_forward(second(x))
        longer.append(cache)
    return keras.ops.convert_to_numpy(to_logits(x))[0, 0], longer


caches = [attention.start_cache(batch_size=1) for _, attention, _, _ in blocks]
written = [letters.index(letter) for letter in "the cat "]
for position in range(92):
    logits, caches = step(written[position], caches, position)
    if position + 1 == len(written):  # else the beginning is given
        choice = np.argmax(logits + rng.gumbel(size=len(letters)))
        written.append(int(choice))
print("".join(letters[id] for id in written))
