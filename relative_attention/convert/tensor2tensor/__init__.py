"""Converts tensor2tensor's checkpoints to models of this package."""

from relative_attention.convert.tensor2tensor.convert_tensor2tensor import (
    convert_tensor2tensor,
)
from relative_attention.convert.tensor2tensor.load_tensor2tensor import (
    load_tensor2tensor,
)

__all__ = ["convert_tensor2tensor", "load_tensor2tensor"]
