"""Keras layers of the relative-position Transformer.

- `attention.py`: the attention layers.
- `positions/`: what positions add to attention. Its `__init__.py` lists the
  encodings and says how to add one.
- `graph_attention.py`: attention between the nodes of a labeled graph.
- `cache.py`: keys and values of decoded positions, and attention to them.
- `dense.py`: projections to heads, feed-forward. `dropout.py`: dropout.
- `embeddings.py`: tokens and absolute positions.
- `blocks.py`: encoder and decoder blocks.

Layers are imported on first use, so that the names of position encodings, which
configs and recipes check, are available without Keras.
"""

import importlib
from typing import Any

from relative_attention.layers import positions

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    return getattr(module, name)
