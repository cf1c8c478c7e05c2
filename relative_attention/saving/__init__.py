"""A trained model as a folder, and the zoo of them by name."""

from relative_attention.saving.average import average_files
from relative_attention.saving.average import average_run
from relative_attention.saving.model_directory import load_results
from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.model_directory import save_translator
from relative_attention.zoo import find_file_or_model
from relative_attention.zoo import find_model

__all__ = [
    "average_files",
    "average_run",
    "find_file_or_model",
    "find_model",
    "load_results",
    "load_translator",
    "save_translator",
]
