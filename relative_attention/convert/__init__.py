"""Models of other systems, brought here."""

from relative_attention.convert.opennmt_tf import load_opennmt_tf
from relative_attention.convert.tensor2tensor import load_tensor2tensor

__all__ = ["load_opennmt_tf", "load_tensor2tensor"]
