"""Converts checkpoints of other systems to models of this package."""

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
