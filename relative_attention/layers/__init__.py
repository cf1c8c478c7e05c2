"""Keras layers of the relative-position Transformer.

- `attention.py`: the attention layers. `positions/__init__.py` says how to add
  a position encoding.
- `graph_attention.py`: attention between the nodes of a labeled graph.
- `cache.py`: keys and values of decoded positions, and attention to them.
- `attention_parts.py`: attention, with its terms returned separately.
- `dense.py`: projections to heads, feed-forward. `dropout.py`: dropout.
- `embeddings.py`: tokens and absolute positions.
- `blocks.py`: encoder and decoder blocks.
"""

from relative_attention.layers.attention import CrossAttention
from relative_attention.layers.attention import RelativeGlobalAttention
from relative_attention.layers.attention import RelativeSelfAttention
from relative_attention.layers.attention import SelfAttention
from relative_attention.layers.blocks import TransformerDecoderBlock
from relative_attention.layers.blocks import TransformerEncoderBlock
from relative_attention.layers.dense import FeedForward
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.embeddings import LearnedPositions
from relative_attention.layers.embeddings import SinusoidalPositions
from relative_attention.layers.embeddings import TargetSpaceEmbedding
from relative_attention.layers.embeddings import TokenEmbedding
from relative_attention.layers.graph_attention import RelationAwareSelfAttention

__all__ = [
    "CrossAttention",
    "Dropout",
    "FeedForward",
    "LearnedPositions",
    "RelationAwareSelfAttention",
    "RelativeGlobalAttention",
    "RelativeSelfAttention",
    "SelfAttention",
    "SinusoidalPositions",
    "TargetSpaceEmbedding",
    "TokenEmbedding",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
]
