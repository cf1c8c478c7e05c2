"""The layers that are compared, and what tables and pictures call them."""

# `keras.layers.MultiHeadAttention`, which knows no positions.
KERAS = "keras"
# `RelativeSelfAttention` without relation tables; the others with, by the
# name of their implementation.
PLAIN = "none"
TRANSPOSE = "transpose"
ENGINE_NAMES = {
    KERAS: "keras.layers.MultiHeadAttention",
    PLAIN: "no relative positions",
    TRANSPOSE: '"transpose" (tensor2tensor)',
    "blocks": '"blocks"',
    "auto": '"auto"',
}
