"""Models of other systems, brought here."""

from relative_attention.convert.tensor2tensor import load_tensor2tensor

__all__ = ["load_tensor2tensor"]
