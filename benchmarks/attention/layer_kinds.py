"""Names of the layers that are compared."""

# `keras.layers.MultiHeadAttention`, which knows no positions.
KERAS = "keras"
# `RelativeSelfAttention` without relation tables; the others with, by the
# name of their implementation.
PLAIN = "none"
TRANSPOSE = "transpose"
