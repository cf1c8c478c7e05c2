"""Recipes, training runs and trained models."""

from relative_attention.experiments.average import average_files
from relative_attention.experiments.average import average_run
from relative_attention.experiments.convert_opennmt_tf import convert_opennmt_tf
from relative_attention.experiments.convert_tensor2tensor import (
    convert_tensor2tensor,
)
from relative_attention.experiments.model_directory import load_translator
from relative_attention.experiments.model_directory import save_translator
from relative_attention.experiments.recipe import Recipe
from relative_attention.experiments.run_directory import check_resume
from relative_attention.experiments.train import train
from relative_attention.experiments.zoo import find_recipe
from relative_attention.experiments.zoo import zoo_models
from relative_attention.experiments.zoo import zoo_recipes

__all__ = [
    "Recipe",
    "average_files",
    "average_run",
    "check_resume",
    "convert_opennmt_tf",
    "convert_tensor2tensor",
    "find_recipe",
    "load_translator",
    "save_translator",
    "train",
    "zoo_models",
    "zoo_recipes",
]
