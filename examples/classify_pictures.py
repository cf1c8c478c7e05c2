"""Classifies pictures by how two things lie: is one left of the other, above?

    python examples/classify_pictures.py

Patches of a picture attend to each other by rows and columns between them. A
model without positions guesses, as every picture has the same patches.
"""

import keras
import numpy as np

import relative_attention as ra

# A picture of 16 x 16 pixels has 4 x 4 patches.
SIDE, PATCH, EPOCHS, EXAMPLES = 4, 4, 6, 4_000
rng = np.random.default_rng(0)
pictures = rng.normal(0, 0.1, (EXAMPLES, SIDE, SIDE, PATCH, PATCH))
places = np.argsort(rng.random((EXAMPLES, SIDE * SIDE)))[:, :2]
row, column = np.divmod(places, SIDE)
cross, square = np.eye(PATCH) + np.eye(PATCH)[::-1], np.ones((PATCH, PATCH))
pictures[np.arange(EXAMPLES), row[:, 0], column[:, 0]] += cross
pictures[np.arange(EXAMPLES), row[:, 1], column[:, 1]] += square
pictures = pictures.swapaxes(2, 3).reshape(-1, SIDE * PATCH, SIDE * PATCH, 1)
is_left, is_above = column[:, 0] < column[:, 1], row[:, 0] < row[:, 1]
labels = is_left + 2 * is_above

# The label of an edge says how many rows and columns it spans.
rows, columns = np.divmod(np.arange(SIDE * SIDE), SIDE)
spans = 2 * SIDE - 1
relations = (rows[None, :] - rows[:, None] + SIDE - 1) * spans
relations += columns[None, :] - columns[:, None] + SIDE - 1

inputs = keras.Input(pictures.shape[1:])
x = keras.layers.Conv2D(32, PATCH, strides=PATCH)(inputs)
x = keras.layers.Reshape((SIDE * SIDE, 32))(x)
for _ in range(2):
    attention = ra.RelationAwareSelfAttention(4, 8, num_relations=spans**2)
    x = x + attention(keras.layers.LayerNormalization()(x), relations)
    x = x + ra.FeedForward(64)(keras.layers.LayerNormalization()(x))
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, keras.layers.Dense(4)(x))

loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
model.fit(pictures, labels, 64, EPOCHS, validation_split=0.1, verbose=2)
