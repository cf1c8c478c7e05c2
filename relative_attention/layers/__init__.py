"""Keras layers of the relative-position Transformer.

- `attention.py`: the attention layers.
- `positions/`: what positions add to attention. Its `__init__.py` lists the
  encodings and says how to add one.
- `graph_attention.py`: attention between the nodes of a labeled graph.
- `cache.py`: keys and values of decoded positions, and attention to them.
- `dense.py`: projections to heads, feed-forward. `dropout.py`: dropout.
- `embeddings.py`: tokens and absolute positions.
- `blocks.py`: encoder and decoder blocks.
- `arguments.py`: types of the arguments that layers share.

Layers are imported on first use, so that the names of position encodings, which
configs and recipes check, are available without Keras.
"""

from typing import TYPE_CHECKING

from relative_attention.layers import positions
from relative_attention.lazy_names import lazy_names

_MODULES = {
    "CrossAttention": "attention",
    "Dropout": "dropout",
    "FeedForward": "dense",
    "LearnedPositions": "embeddings",
    "RelationAwareSelfAttention": "graph_attention",
    "RelativeGlobalAttention": "attention",
    "RelativeSelfAttention": "attention",
    "SelfAttention": "attention",
    "SinusoidalPositions": "embeddings",
    "TargetSpaceEmbedding": "embeddings",
    "TokenEmbedding": "embeddings",
    "TransformerDecoderBlock": "blocks",
    "TransformerEncoderBlock": "blocks",
}
__all__ = [*_MODULES]

if TYPE_CHECKING:
    # What type checkers see of the names that `__getattr__` imports.
    from relative_attention.layers.attention import (
        CrossAttention as CrossAttention,
    )
    from relative_attention.layers.attention import (
        RelativeGlobalAttention as RelativeGlobalAttention,
    )
    from relative_attention.layers.attention import (
        RelativeSelfAttention as RelativeSelfAttention,
    )
    from relative_attention.layers.attention import (
        SelfAttention as SelfAttention,
    )
    from relative_attention.layers.blocks import (
        TransformerDecoderBlock as TransformerDecoderBlock,
    )
    from relative_attention.layers.blocks import (
        TransformerEncoderBlock as TransformerEncoderBlock,
    )
    from relative_attention.layers.dense import FeedForward as FeedForward
    from relative_attention.layers.dropout import Dropout as Dropout
    from relative_attention.layers.embeddings import (
        LearnedPositions as LearnedPositions,
    )
    from relative_attention.layers.embeddings import (
        SinusoidalPositions as SinusoidalPositions,
    )
    from relative_attention.layers.embeddings import (
        TargetSpaceEmbedding as TargetSpaceEmbedding,
    )
    from relative_attention.layers.embeddings import (
        TokenEmbedding as TokenEmbedding,
    )
    from relative_attention.layers.graph_attention import (
        RelationAwareSelfAttention as RelationAwareSelfAttention,
    )
else:
    __getattr__ = lazy_names(__name__, _MODULES)
