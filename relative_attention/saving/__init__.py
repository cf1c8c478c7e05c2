"""A trained model as a folder."""

from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.model_directory import save_translator

__all__ = ["load_translator", "save_translator"]
