"""A trained model as a folder.

`average.py` is not imported here, as translating must not import training.
"""

from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.model_directory import save_translator

__all__ = ["load_translator", "save_translator"]
