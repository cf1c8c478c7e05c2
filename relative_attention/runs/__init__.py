"""Training runs, from recipe to results."""

from relative_attention.runs.distill import distill
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe import find_recipe
from relative_attention.runs.run import train
from relative_attention.runs.run_directory import check_resume

__all__ = ["Recipe", "check_resume", "distill", "find_recipe", "train"]
