"""Attention as the papers define it, one pair of tokens after another."""

import numpy as np


def randomize(layer, rng, width):
    layer.build((None, None, width))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    return layer


def attention_by_loops(layer, inputs, logit, is_causal=False):
    """Outputs in float64.

    Args:
        layer: a built `SelfAttention` without biases.
        inputs: array `(B, T, D)`.
        logit: function of head `n`, positions `i` and `j`, query and key
            vectors `(H,)`, before they are scaled.
        is_causal: bool.
    """
    query, key, value, output = (
        np.array(dense.kernel, "float64")
        for dense in (
            layer.query_dense,
            layer.key_dense,
            layer.value_dense,
            layer.output_dense,
        )
    )
    batch_size, length, _ = inputs.shape
    outputs = np.zeros(inputs.shape)
    for b, n, i in np.ndindex(batch_size, layer.num_heads, length):
        seen = range(i + 1 if is_causal else length)
        own = inputs[b, i] @ query[:, n]
        logits = [logit(n, i, j, own, inputs[b, j] @ key[:, n]) for j in seen]
        scores = np.exp(logits) / np.exp(logits).sum()
        context = scores @ (inputs[b, seen] @ value[:, n])
        outputs[b, i] += context @ output[n]
    return outputs
