"""Keras layers of the relative-position Transformer.

How to add a position encoding is in `positions/__init__.py`.
"""

from relative_attention.layers.cross_attention import CrossAttention
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.feed_forward import FeedForward
from relative_attention.layers.layer_normalization import LayerNormalization
from relative_attention.layers.learned_positions import LearnedPositions
from relative_attention.layers.relation_aware_self_attention import (
    RelationAwareSelfAttention,
)
from relative_attention.layers.self_attention import RelativeGlobalAttention
from relative_attention.layers.self_attention import RelativeSelfAttention
from relative_attention.layers.self_attention import SelfAttention
from relative_attention.layers.sinusoidal_positions import SinusoidalPositions
from relative_attention.layers.target_space_embedding import (
    TargetSpaceEmbedding,
)
from relative_attention.layers.token_embedding import TokenEmbedding
from relative_attention.layers.transformer_decoder_block import (
    TransformerDecoderBlock,
)
from relative_attention.layers.transformer_encoder_block import (
    TransformerEncoderBlock,
)

__all__ = [
    "CrossAttention",
    "Dropout",
    "FeedForward",
    "LayerNormalization",
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
