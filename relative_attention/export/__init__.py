"""Exports trained translators to other engines."""

from relative_attention.export.ctranslate2 import export_ctranslate2
from relative_attention.export.saved_model import export_saved_model

__all__ = ["export_ctranslate2", "export_saved_model"]
