"""Keras layers of the relative-position Transformer.

How to add a position encoding. There are two kinds; each kind here is an
example of its own:

 - Encodings that are added to embeddings: `LearnedPositions` (the shortest),
   `SinusoidalPositions`. Write a layer with `call(inputs, start_position=0)`
   that returns `(B, T, D)`; decoding calls it with one row and the position of
   that row.
 - Encodings within self-attention: `RelativeSelfAttention`,
   `RelativeGlobalAttention`. Write a subclass of `SelfAttentionLayer`, whose
   docstring names its three methods. To decode with a cache it also needs
   `start_cache`, `merge_cache` and `decode_step`, as `RelativeSelfAttention`
   has them.

Either way: export the layer below, give it a name in the table of
`models/position_encodings.py`, which says the rest, and test it as
`tests/layers/test_learned_positions.py` does.
"""

from relative_attention.layers.cross_attention import CrossAttention
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.feed_forward import FeedForward
from relative_attention.layers.layer_normalization import LayerNormalization
from relative_attention.layers.learned_positions import LearnedPositions
from relative_attention.layers.relation_aware_self_attention import (
    RelationAwareSelfAttention,
)
from relative_attention.layers.relative_global_attention import (
    RelativeGlobalAttention,
)
from relative_attention.layers.relative_self_attention import (
    RelativeSelfAttention,
)
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
    "SinusoidalPositions",
    "TargetSpaceEmbedding",
    "TokenEmbedding",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
]
