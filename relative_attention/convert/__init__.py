"""Converts checkpoints of other systems to models of this package.

Both converters follow one path: read the names and shapes of a checkpoint's
variables, find the architecture, build a `Transformer`, name where each of its
weights is stored (`StoredWeight`), check that every variable has a place, then
assign them.
"""

from relative_attention.convert.opennmt_tf import convert_opennmt_tf
from relative_attention.convert.opennmt_tf import load_opennmt_tf
from relative_attention.convert.tensor2tensor import convert_tensor2tensor
from relative_attention.convert.tensor2tensor import load_tensor2tensor

__all__ = [
    "convert_opennmt_tf",
    "convert_tensor2tensor",
    "load_opennmt_tf",
    "load_tensor2tensor",
]
