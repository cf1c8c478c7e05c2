"""Tensor functions without state, written with `keras.ops` alone.

They run on TensorFlow, JAX and PyTorch; layers are made of them.
"""

from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.labelled_edges import label_context
from relative_attention.ops.labelled_edges import label_logits
from relative_attention.ops.layer_normalization import layer_normalization
from relative_attention.ops.masks import causal_mask
from relative_attention.ops.masks import padding_mask
from relative_attention.ops.relative_attention_inner import (
    relative_attention_inner,
)
from relative_attention.ops.relative_positions import clipped_relative_positions
from relative_attention.ops.skew import skew
from relative_attention.ops.skew import unskew

__all__ = [
    "attention_context",
    "attention_logits",
    "causal_mask",
    "clipped_relative_positions",
    "label_context",
    "label_logits",
    "layer_normalization",
    "masked_softmax",
    "padding_mask",
    "relative_attention_inner",
    "skew",
    "unskew",
]
